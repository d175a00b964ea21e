"""A summarizer over a scripted model that records everything the model was sent.

There is no language model here: the script carries every literal of what it reads forward, as a
faithful model would. What counts is what it was sent, looked at from outside.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import PrivateAttr

from langchain_tokenmem.cli.measures import ReferenceCounter, calls_of, text_of
from langchain_tokenmem.summarize.base import Summary, SummaryRequest
from langchain_tokenmem.summarize.model import ModelSummarizer
from tests.golden.models import notes_on

_TRANSCRIPT = re.compile(r"<transcript>\n(.*?)\n</transcript>", re.DOTALL)
_LABEL_CHARACTERS = 60
"""A speaker's label and a tool's name around what was said, at most."""


@dataclass(frozen=True)
class SummaryCall:
    """One request to the scripted model."""

    step: str
    attempt: int
    messages: Sequence[BaseMessage]

    @property
    def transcript(self) -> str:
        """What it was given to read."""
        found = _TRANSCRIPT.search(str(self.messages[-1].content))
        return found[1] if found else ""


class ScriptedModel(BaseChatModel):
    """Writes down every literal that it reads, each once, as long as there is room."""

    _calls: list[SummaryCall] = PrivateAttr(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @property
    def calls(self) -> list[SummaryCall]:
        """Every request, in order."""
        return self._calls

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # LangChain's signature
        run_manager: CallbackManagerForLLMRun | None = None,
        **_kwargs: Any,
    ) -> ChatResult:
        about = run_manager.metadata if run_manager else {}
        self._calls.append(
            SummaryCall(
                about.get("tokenmem_step", ""), about.get("tokenmem_attempt", 1), list(messages)
            )
        )
        said = ChatGeneration(message=AIMessage(notes_on(str(messages[-1].content))))
        return ChatResult(generations=[said])


@dataclass(frozen=True)
class SummaryJob:
    """One summary.

    Attributes:
        evicted: Characters, without white space, of the messages that left the tail.
        covered: Of those, the ones that stand in an accepted leaf, in order.
        surplus: Characters in the leaves beyond them and the speakers' labels.
        largest: Tokens of the largest prompt, counted outside.
        fell_back: Whether the model's answers were all refused.
    """

    evicted: int
    covered: int
    surplus: int
    largest: int
    fell_back: bool


@dataclass
class WatchedSummarizer:
    """A `ModelSummarizer` over the scripted model that keeps a record of every job.

    Args:
        window: Window of the scripted model, in tokens.
        counter: Counts prompts outside of the memory.
    """

    window: int
    counter: ReferenceCounter
    jobs: list[SummaryJob] = field(default_factory=list)
    is_quick: bool = True

    def __post_init__(self) -> None:
        self._model = ScriptedModel(profile={"max_input_tokens": self.window})
        # Every batch is written by the model: what is measured is that it reads all of it.
        self._writer = ModelSummarizer(self._model, min_messages=0, min_tokens=0)

    def wants(self, messages: Sequence[BaseMessage]) -> bool:
        """Return what the model's own gate says."""
        return self._writer.wants(messages)

    def summarize(self, request: SummaryRequest) -> Summary:
        """Let the model write, and note what it was sent."""
        start = len(self._model.calls)
        summary = self._writer.summarize(request)
        calls = self._model.calls[start:]
        if calls:  # none where the same batch was summarized before
            self.jobs.append(_job(request.messages, calls, summary, self.counter))
        return summary

    @property
    def failed(self) -> bool:
        """Whether a character was not read, or read twice, or a prompt was too large."""
        return any(
            job.covered < job.evicted or job.surplus or job.largest > self.window or job.fell_back
            for job in self.jobs
        )

    async def asummarize(self, request: SummaryRequest) -> Summary:
        """Do the same as `summarize`; replay has no event loop to spare."""
        return self.summarize(request)


def _job(
    evicted: Sequence[BaseMessage],
    calls: Sequence[SummaryCall],
    summary: Summary,
    counter: ReferenceCounter,
) -> SummaryJob:
    ends = [now for now, later in pairwise([*calls, None]) if later is None or later.attempt == 1]
    leaves = "".join(call.transcript for call in ends if call and call.step in {"leaf", "update"})
    total, covered, surplus = coverage(evicted, leaves)
    return SummaryJob(
        evicted=total,
        covered=covered,
        surplus=surplus,
        largest=max(counter.request(call.messages) for call in calls),
        fell_back=bool(summary.failures) and summary.model == "extractive",
    )


def coverage(evicted: Sequence[BaseMessage], leaves: str) -> tuple[int, int, int]:
    """Return how much of what was evicted stands in what was read, by a search of its own.

    Args:
        evicted: The messages, in the form that the view has sent.
        leaves: What the accepted leaf calls were given, in order.

    Returns:
        Characters evicted, characters found in order, and characters read beyond both; white
        space is left out, for a cut may stand in it.
    """
    read = _squeezed(leaves)
    place = total = covered = labels = 0
    for message in evicted:
        labels += _LABEL_CHARACTERS
        for said in (text_of(message), *(f"{name}({args})" for _, name, args in _calls(message))):
            wanted = _squeezed(said)
            total += len(wanted)
            found = read.find(wanted, place)
            if found >= 0:
                place = found + len(wanted)
                covered += len(wanted)
    return total, covered, max(0, len(read) - total - labels)


def _calls(message: BaseMessage) -> list[tuple[str, str, str]]:
    """Return calls with their arguments as a model reads them, not as a provider gets them."""
    return [
        (key, name, json.dumps(json.loads(args), ensure_ascii=False) if args else "")
        for key, name, args in calls_of(message)
    ]


def _squeezed(text: str) -> str:
    return "".join(text.split())

"""Calls of a summarizing model for one entry: a generator that yields them and gets the answers.

Every decision is here; `model.py` makes the calls, once sync and once async.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig

from langchain_tokenmem.background import CircuitBreaker
from langchain_tokenmem.errors import SummaryError
from langchain_tokenmem.summarize.base import SummaryRequest, check_answer
from langchain_tokenmem.summarize.compact_requests import PromptBuilder
from langchain_tokenmem.summarize.literal_check import (
    known_text,
    unknown_literals,
    without_lines,
)
from langchain_tokenmem.summarize.model_call import (
    JobUsage,
    as_main_call,
    unstreamed_config,
)
from langchain_tokenmem.summarize.prompts import escape_fences, split_transcript
from langchain_tokenmem.summarize.reused_requests import is_cheaper_reused, is_same_model

_TARGETS = (1.0, 0.7, 0.5)
"""Share of the token limit that each attempt asks for: models count badly, and run over."""

_MAX_NOTES = 4
"""Notes, old or new, take at most this part of the window: both have to stand in one request."""

_PART_NOTES = 8
"""Notes on one part of a transcript take at most this part of the window."""

_MOST_NAMED = 12
"""Literals that a second order names."""

_HEADING_LINE = re.compile(r"^\s*#.*$", re.MULTILINE)


class NoNotesError(Exception):
    """The model gave no notes; the failures say why."""


_T = TypeVar("_T")
Call = tuple[Runnable[Any, Any], list[BaseMessage], RunnableConfig]
Steps = Generator[Call, Any, _T]
"""Yields model calls, gets their answers or errors, and returns its result."""


@dataclass(frozen=True)
class WrittenEntry:
    """An entry as a model wrote it.

    Attributes:
        text: Its text.
        call: The call that it answers.
    """

    text: str
    call: Call


@dataclass(frozen=True)
class EntryWriter:
    """Decides which calls make an entry.

    Attributes:
        given: The summarizing model, as the application gave it.
        model: The same without tools and forms of answer.
        name: Its name.
        builder: Writes its prompts.
        breaker: Is told of failed calls, and stops them.
        reuse_prefix: See `ModelSummarizer`.
        usage: Takes what the calls cost and why answers were refused.
    """

    given: Runnable[Any, Any]
    model: Runnable[Any, Any]
    name: str
    builder: PromptBuilder
    breaker: CircuitBreaker
    reuse_prefix: bool | None
    usage: JobUsage = field(default_factory=JobUsage)

    def entry(self, request: SummaryRequest) -> Steps[WrittenEntry]:
        """Yield the calls for an entry; return it.

        Raises:
            NoNotesError: When there is no text.
        """
        entry = yield from self._notes(request)
        return (yield from self._without_unknown(request, entry))

    def _notes(self, request: SummaryRequest) -> Steps[WrittenEntry]:
        """Yield the calls of a request; return the answer that is its entry."""
        if self.breaker.is_open:
            self._failed(f"{self.name} has failed {self.breaker.attempts} times and is left alone")
            raise NoNotesError
        request = self.builder.within_window(request, self.builder.window // _MAX_NOTES)
        model = self._reused_model(request)
        if model is not None:
            try:
                # Once only: a model that is drawn to its tools reads the batch alone next.
                return (yield from self._ask(request, "reuse", "", model=model, targets=(1.0,)))
            except NoNotesError:
                if self.breaker.is_open:
                    raise
        room = self.builder.room(request)
        parts = split_transcript(request.messages, request.count_text, max(room, 1))
        if len(parts) > 1:
            return (yield from self._notes_on_parts(request, room))
        step = "condense" if request.condenses else "update"
        return (yield from self._ask(request, step, parts[0]))

    def _notes_on_parts(self, request: SummaryRequest, room: int) -> Steps[WrittenEntry]:
        """Yield the calls that read a long batch in parts; return the entry that they make."""
        # Parts know nothing of each other, nor of the log; the last call sees both.
        part = replace(request, prior=None, max_tokens=self.builder.window // _PART_NOTES)
        part_room = self.builder.room(part)
        if part_room < part.max_tokens * 2 or room < part.max_tokens:
            self._failed(f"the window of {self.name} ({self.builder.window:,}) is too small")
            raise NoNotesError
        notes: list[str] = []
        for text in split_transcript(request.messages, request.count_text, max(part_room, 1)):
            entry = yield from self._ask(part, "leaf", text)
            notes.append(entry.text)
        while sum(map(part.count_text, notes)) + len(notes) > room:
            batch = escape_fences("\n\n".join([notes.pop(0), notes.pop(0)]))
            notes.append((yield from self._ask(part, "part", batch)).text)
        return (yield from self._ask(request, "merge", escape_fences("\n\n".join(notes))))

    def _reused_model(self, request: SummaryRequest) -> Runnable[Any, Any] | None:
        """Return the model that sends the main request again, where that is wanted."""
        wanted, called = self.reuse_prefix, request.called
        if wanted is False or request.condenses or not request.sent:
            return None
        if not is_same_model(self.given, called) if called is not None else not wanted:
            return None
        model = as_main_call(self.given, request.tools, request.settings)
        reused = self.builder.reused(request, request.max_tokens)
        if model is None or not self.builder.fits(request, reused):
            return None
        plain = self.builder.whole(request)
        return model if wanted or is_cheaper_reused(request, reused, plain) else None

    def _ask(
        self,
        request: SummaryRequest,
        step: str,
        transcript: str,
        *,
        model: Runnable[Any, Any] | None = None,
        targets: Sequence[float] = _TARGETS,
    ) -> Steps[WrittenEntry]:
        """Yield one call, again with a shorter target where the answer is refused."""
        for attempt, share in enumerate(targets, 1):
            target = int(share * request.max_tokens)
            messages = self.builder.prompt(request, step, transcript, target)
            call = (model or self.model, messages, unstreamed_config(step, attempt))
            entry = yield from self._answered(request, call)
            if entry is not None:
                return entry
            if self.breaker.is_open:
                break
        raise NoNotesError

    def _answered(self, request: SummaryRequest, call: Call) -> Steps[WrittenEntry | None]:
        """Yield a call; return its notes, or None where the answer is refused."""
        self.usage.calls += 1
        answer = yield call
        try:
            text = self._checked(request, answer)
        except SummaryError as refused:
            self._failed(f"{self.name}: {refused}")
            self.breaker.failed()
            return None
        self.breaker.succeeded()
        return WrittenEntry(text, call)

    def _checked(self, request: SummaryRequest, answer: Any) -> str:
        if isinstance(answer, Exception):
            raise SummaryError(f"{type(answer).__name__}: {answer}") from answer
        if isinstance(answer, str):
            answer = AIMessage(answer)
        if not isinstance(answer, BaseMessage):
            raise SummaryError(f"the answer is a {type(answer).__name__}, no message and no text")
        self.usage.add(answer)
        sections = request.sections or self.builder.prompts.sections
        return check_answer(answer, request, sections)

    def _without_unknown(self, request: SummaryRequest, entry: WrittenEntry) -> Steps[WrittenEntry]:
        """Return an entry without literals that nobody said; one more call names them."""
        known = known_text(request)
        text, unknown = entry.text, unknown_literals(entry.text, known)[:_MOST_NAMED]
        if not unknown:
            return entry
        named = ", ".join(unknown)
        self._failed(f"{self.name}: the answer has literals that nobody said: {named}")
        model, messages, _ = entry.call
        again = self.builder.corrected(messages, text, unknown)
        if self.builder.fits(request, again):
            call = (model, again, unstreamed_config("correct", 1))
            corrected = yield from self._answered(request, call)
            text = corrected.text if corrected else text
        text, dropped = without_lines(text, lambda line: bool(unknown_literals(line, known)))
        if dropped:
            self._failed(f"{self.name}: left out, as nobody said it: {dropped}")
        if not re.search(r"\w", _HEADING_LINE.sub("", text)):
            raise NoNotesError
        return replace(entry, text=text)

    def _failed(self, why: str) -> None:
        self.usage.failures += (why,)

"""Summarizer that calls a chat model, with retries, validation and an extractive fallback."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable

from langchain_tokenmem.background import CircuitBreaker, in_own_thread
from langchain_tokenmem.core.budget import DEFAULT_CONTEXT_WINDOW
from langchain_tokenmem.core.chat_models import model_name, profile_of
from langchain_tokenmem.core.messages import role_of, text_of
from langchain_tokenmem.core.profiles import profile_of_model
from langchain_tokenmem.summarize.base import MIN_CHARACTERS, Summarizer, Summary, SummaryRequest
from langchain_tokenmem.summarize.compact_requests import USERS_LANGUAGE, PromptBuilder
from langchain_tokenmem.summarize.entry_calls import Call, EntryWriter, NoNotesError, Steps
from langchain_tokenmem.summarize.extractive import ExtractiveSummarizer, ToolExtracts
from langchain_tokenmem.summarize.model_call import JobUsage, without_bindings
from langchain_tokenmem.summarize.prompts import SummaryPrompts

ATTEMPTS = 3
COOL_DOWN_S = 300.0

TOOL_SHARE = 0.4
"""On recorded agents (`benchmarks/price.py`) notes of a model alone held 5 points fewer of the far
literals than extracts alone; with this share it is less than half a point."""


class ModelSummarizer:
    r"""Writes entries of the running summary with a chat model, or any runnable to a message.

    Every evicted character is read by exactly one call that counts, in parts that fit the model's
    own window. Answers that are no notes are refused and asked for again, shorter; after three
    failures the extractive summarizer writes, and the model is left alone for a while. Literals
    that nobody said are named in one more call; bullets that still have them are left out. Behind
    its notes stand extracts of the tool calls, which no model has to copy. The model's tokens stay
    out of the user's stream.

    Args:
        model: The model; it is not changed.
        window: Its context window in tokens; default: from its profile, else 16,384.
        prompts: The words of the requests.
        language: Language of the notes; default: the user's.
        min_messages: Meaningful human and AI messages from which a batch is worth a call.
        min_characters: Or characters of them.
        reuse_prefix: Send the main request with its tools and settings, up to its last complete
            group, with one instruction behind it: a provider's prompt cache then hits. True: where
            it fits the model's window. None: where it is cheaper, too, and the called model is
            known to be this one (`reused_requests.is_cheaper_reused` has the formula). Never for
            another model than the called one, and not where that is made to call a tool or bound to
            a form of answer: then, and where False, the model is unbound from these and reads the
            batch alone.
        tool_share: Share of an entry's tokens that extracts of its tool calls have, if they need
            so many; the model has the others. What it leaves is theirs, too. 0.0: no extracts.
        fallback: Writes where the model fails.
        cool_down_s: Seconds that the model is left alone after three failures.
        clock: Gives seconds that only grow.

    Example:
        >>> from langchain_core.language_models import FakeListChatModel
        >>> from langchain_core.messages import HumanMessage
        >>> writer = ModelSummarizer(FakeListChatModel(responses=["## State\n- Ship parcel 4711."]))
        >>> request = SummaryRequest([HumanMessage("Ship 4711!")], 50, lambda text: len(text) // 4)
        >>> writer.summarize(request).text
        '## State\n- Ship parcel 4711.'
    """

    is_quick = False

    def __init__(
        self,
        model: Runnable[Any, Any],
        *,
        window: int | None = None,
        prompts: SummaryPrompts | None = None,
        language: str | None = None,
        min_messages: int = 4,
        min_characters: int = 5_000,
        reuse_prefix: bool | None = None,
        tool_share: float = TOOL_SHARE,
        fallback: Summarizer | None = None,
        cool_down_s: float = COOL_DOWN_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._model = without_bindings(model)
        self.name = model_name(model) or type(self._model).__name__
        self.prompts = prompts or SummaryPrompts()
        self.window = window or profile_of(model).get("max_input_tokens") or DEFAULT_CONTEXT_WINDOW
        self.breaker = CircuitBreaker(ATTEMPTS, cool_down_s, clock)
        self._builder = PromptBuilder(
            self.prompts, language or USERS_LANGUAGE, self.window, profile_of_model(model)
        )
        self._writer = EntryWriter(
            model, self._model, self.name, self._builder, self.breaker, reuse_prefix
        )
        self._min_messages = min_messages
        self._min_characters = min_characters
        self._tool_share = tool_share
        self._fallback = fallback or ExtractiveSummarizer()

    def wants(self, messages: Sequence[BaseMessage]) -> bool:
        """Return whether a batch holds enough words of people and models to be worth a call.

        Tool results and tool calls do not count: an extract says of them what there is to say.
        """
        said = (message for message in messages if role_of(message) in {"human", "ai"})
        lengths = [len(text_of(message).strip()) for message in said]
        meaningful = [length for length in lengths if length >= MIN_CHARACTERS]
        return len(meaningful) >= self._min_messages or sum(meaningful) >= self._min_characters

    def summarize(self, request: SummaryRequest) -> Summary:
        """Return the entry for the request's messages; the fallback's where the model fails."""
        steps = self._summary_steps(request)
        step = _advance(steps)
        while not isinstance(step, Summary):
            model, messages, config = step
            try:
                answer = model.invoke(messages, config)
            except Exception as error:  # noqa: BLE001  # a provider's error is a failed attempt
                answer = error
            step = _advance(steps, answer)
        return step

    async def asummarize(self, request: SummaryRequest) -> Summary:
        """Do the same as `summarize` without blocking the event loop."""
        steps = self._summary_steps(request)
        step = await in_own_thread(_advance, steps)
        while not isinstance(step, Summary):
            model, messages, config = step
            try:
                answer = await model.ainvoke(messages, config)
            except Exception as error:  # noqa: BLE001  # a provider's error is a failed attempt
                answer = error
            step = await in_own_thread(_advance, steps, answer)
        return step

    def _summary_steps(self, request: SummaryRequest) -> Steps[Summary]:
        extracts = ToolExtracts(request, self._tool_share)
        asked = extracts.for_model()
        writer = replace(self._writer, usage=JobUsage())
        try:
            entry = yield from writer.entry(asked)
        except NoNotesError:
            return replace(self._fallback.summarize(request), **vars(writer.usage))
        summary = Summary(entry.text, self.name, self.prompts.version, **vars(writer.usage))
        return extracts.behind(summary)


def _advance(steps: Steps[Summary], answer: Any = None) -> Call | Summary:
    """Send an answer to the generator; return its next call, or its result."""
    try:
        return steps.send(answer)
    except StopIteration as done:
        summary: Summary = done.value
        return summary

"""Summarizer that calls a chat model, with retries, validation and an extractive fallback."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from langchain_core.caches import BaseCache, InMemoryCache
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import Generation
from langchain_core.runnables import Runnable, RunnableConfig

from langchain_tokenmem.core.budget import DEFAULT_CONTEXT_WINDOW
from langchain_tokenmem.core.chat_models import model_name, profile_of
from langchain_tokenmem.core.messages import text_of
from langchain_tokenmem.errors import SummaryError
from langchain_tokenmem.summarize.base import Summarizer, Summary, SummaryRequest
from langchain_tokenmem.summarize.breaker import CircuitBreaker
from langchain_tokenmem.summarize.checks import check_answer
from langchain_tokenmem.summarize.compact_requests import USERS_LANGUAGE, PromptBuilder
from langchain_tokenmem.summarize.extractive import ExtractiveSummarizer
from langchain_tokenmem.summarize.model_call import unstreamed_config, without_bindings
from langchain_tokenmem.summarize.prompts import SummaryPrompts
from langchain_tokenmem.summarize.rendering import TranscriptPart, escape_fences, split_transcript

ATTEMPTS = 3
COOL_DOWN_S = 300.0
MOST_MESSAGES = 100

_TARGETS = (1.0, 0.7, 0.5)
"""Share of the token limit that each attempt asks for: models count badly, and run over."""


_MAX_NOTES = 4
"""Notes, old or new, take at most this part of the window: both have to stand in one request."""

_PART_NOTES = 8
"""Notes on one part of a transcript take at most this part of the window."""

_MEANINGFUL_CHARACTERS = 20


@dataclass
class _Usage:
    """Usage of a job so far."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    failures: tuple[str, ...] = ()

    def add(self, answer: BaseMessage) -> None:
        usage = getattr(answer, "usage_metadata", None) or {}
        self.input_tokens += usage.get("input_tokens", 0)
        self.output_tokens += usage.get("output_tokens", 0)
        reported = answer.response_metadata
        price = reported.get("cost", (reported.get("token_usage") or {}).get("cost"))
        if isinstance(price, (int, float)):
            self.cost = (self.cost or 0.0) + price


class _NoNotesError(Exception):
    """The model gave no notes; the failures say why."""


_T = TypeVar("_T")
_Call = tuple[list[BaseMessage], RunnableConfig]
Steps = Generator[_Call, Any, _T]
"""Yields model calls, gets their answers or errors, and returns its result."""


class ModelSummarizer:
    r"""Folds messages into notes with a chat model, or any runnable from messages to a message.

    Every evicted character is read by exactly one call that counts, in parts that fit the model's
    own window. Answers that are no notes are refused and asked for again, shorter; after three
    failures the extractive summarizer writes, and the model is left alone for a while. The model
    is unbound from tools and forms of answer, and its tokens stay out of the user's stream.

    Args:
        model: The model; it is not changed.
        window: Its context window in tokens; default: from its profile, else 16,384.
        prompts: The words of the requests.
        language: Language of the notes; default: the user's.
        min_messages: Meaningful messages from which a batch is worth a call.
        min_characters: Or characters of them.
        reuse_prefix: Send the main request, byte for byte, with one instruction behind it, for
            providers whose prompt cache then hits; used where it fits the model's window.
        cache: Where summaries are kept by what went into them, so that no batch is paid twice.
        fallback: Writes where the model fails.
        cool_down_s: Seconds that the model is left alone after three failures.
        clock: Gives seconds that only grow.

    Example:
        >>> from langchain_core.language_models import FakeListChatModel
        >>> from langchain_core.messages import HumanMessage
        >>> writer = ModelSummarizer(FakeListChatModel(responses=["## Goal\\nShip parcel 4711."]))
        >>> request = SummaryRequest([HumanMessage("Ship 4711!")], 50, lambda text: len(text) // 4)
        >>> writer.summarize(request).text
        '## Goal\\nShip parcel 4711.'
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
        reuse_prefix: bool = False,
        cache: BaseCache | None = None,
        fallback: Summarizer | None = None,
        cool_down_s: float = COOL_DOWN_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._model = without_bindings(model)
        self.name = model_name(model) or type(self._model).__name__
        self.prompts = prompts or SummaryPrompts()
        self.window = window or profile_of(model).get("max_input_tokens") or DEFAULT_CONTEXT_WINDOW
        self.breaker = CircuitBreaker(ATTEMPTS, cool_down_s, clock)
        self._builder = PromptBuilder(self.prompts, language or USERS_LANGUAGE, self.window)
        self._min_messages = min_messages
        self._min_characters = min_characters
        self._reuse_prefix = reuse_prefix
        self._cache = cache or InMemoryCache(maxsize=256)
        self._fallback = fallback or ExtractiveSummarizer()

    def wants(self, messages: Sequence[BaseMessage]) -> bool:
        """Return whether a batch holds enough to be worth a call."""
        lengths = [len(text_of(message).strip()) for message in messages]
        meaningful = [length for length in lengths if length >= _MEANINGFUL_CHARACTERS]
        return len(meaningful) >= self._min_messages or sum(meaningful) >= self._min_characters

    def summarize(self, request: SummaryRequest) -> Summary:
        """Return the new running summary; the fallback's where the model fails."""
        steps = self._summary_steps(request)
        step = _advance(steps)
        while not isinstance(step, Summary):
            try:
                answer = self._model.invoke(*step)
            except Exception as error:  # noqa: BLE001  # a provider's error is a failed attempt
                answer = error
            step = _advance(steps, answer)
        return step

    async def asummarize(self, request: SummaryRequest) -> Summary:
        """Do the same as `summarize` without blocking the event loop."""
        steps = self._summary_steps(request)
        step = await asyncio.to_thread(_advance, steps)
        while not isinstance(step, Summary):
            try:
                answer = await self._model.ainvoke(*step)
            except Exception as error:  # noqa: BLE001  # a provider's error is a failed attempt
                answer = error
            step = await asyncio.to_thread(_advance, steps, answer)
        return step

    def _summary_steps(self, request: SummaryRequest) -> Steps[Summary]:
        key = self._builder.key(request, self.name)
        known = self._cache.lookup(key, self.prompts.version)
        if known and request.count_text(known[0].text) <= request.max_tokens:
            return Summary(known[0].text, self.name, self.prompts.version)
        tally = _Usage()
        try:
            text = yield from self._notes(request, tally)
        except _NoNotesError:
            return replace(self._fallback.summarize(request), **vars(tally))
        self._cache.update(key, self.prompts.version, [Generation(text=text)])
        return Summary(text, self.name, self.prompts.version, **vars(tally))

    def _notes(self, request: SummaryRequest, tally: _Usage) -> Steps[str]:
        """Yield the calls of a job; return the notes."""
        if self.breaker.is_open:
            tally.failures = (f"{self.name} has failed {ATTEMPTS} times and is left alone",)
            raise _NoNotesError
        if self._reuse_prefix and self._builder.fits_reused(request):
            return (yield from self._ask(request, tally, "reuse", ""))
        request = self._within_window(request)
        room = self._builder.room(request)
        parts = self._parts(request, room)
        if len(parts) == 1:
            return (yield from self._ask(request, tally, "update", parts[0].text))
        # Parts know nothing of each other; what they say is merged into the earlier notes.
        part_request = replace(request, prior=None, max_tokens=self.window // _PART_NOTES)
        part_room = self._builder.room(part_request)
        if part_room < part_request.max_tokens * 2 or room < part_request.max_tokens:
            tally.failures = (f"the window of {self.name} ({self.window:,}) is too small",)
            raise _NoNotesError
        notes = []
        for part in self._parts(request, part_room):
            note = yield from self._ask(part_request, tally, "leaf", part.text)
            notes.append(note)
        while sum(map(request.count_text, notes)) + len(notes) > room:
            batch = escape_fences("\n\n".join([notes.pop(0), notes.pop(0)]))
            notes.append((yield from self._ask(part_request, tally, "part", batch)))
        return (yield from self._ask(request, tally, "merge", escape_fences("\n\n".join(notes))))

    def _within_window(self, request: SummaryRequest) -> SummaryRequest:
        """Return the request with notes, old and new, that leave room in the model's own window."""
        most = self.window // _MAX_NOTES
        request = replace(request, max_tokens=min(request.max_tokens, most))
        if request.prior and request.count_text(request.prior) > most:
            earlier = HumanMessage(request.prior, name="earlier_notes")
            return replace(request, prior=None, messages=[earlier, *request.messages])
        return request

    def _parts(self, request: SummaryRequest, room: int) -> list[TranscriptPart]:
        return split_transcript(
            request.messages,
            most_tokens=max(room, 1),
            most_messages=MOST_MESSAGES,
            count_text=request.count_text,
        )

    def _ask(
        self, request: SummaryRequest, tally: _Usage, step: str, transcript: str
    ) -> Steps[str]:
        """Yield one call, again with a shorter target where the answer is refused."""
        for attempt, share in enumerate(_TARGETS, 1):
            messages = self._builder.prompt(
                request, step, transcript, int(share * request.max_tokens)
            )
            tally.calls += 1
            answer = yield messages, unstreamed_config(step, attempt)
            try:
                text = self._checked(answer, request, tally)
            except SummaryError as refused:
                tally.failures += (f"{self.name}: {refused}",)
                self.breaker.failed()
                if self.breaker.is_open:
                    break
            else:
                self.breaker.succeeded()
                return text
        raise _NoNotesError

    def _checked(self, answer: Any, request: SummaryRequest, tally: _Usage) -> str:
        if isinstance(answer, Exception):
            raise SummaryError(f"{type(answer).__name__}: {answer}") from answer
        if isinstance(answer, str):
            answer = AIMessage(answer)
        if not isinstance(answer, BaseMessage):
            raise SummaryError(f"the answer is a {type(answer).__name__}, no message and no text")
        tally.add(answer)
        return check_answer(answer, request, self.prompts.sections)


def _advance(steps: Steps[Summary], answer: Any = None) -> _Call | Summary:
    """Send an answer to the generator; return its next call, or its result."""
    try:
        return steps.send(answer)
    except StopIteration as done:
        summary: Summary = done.value
        return summary

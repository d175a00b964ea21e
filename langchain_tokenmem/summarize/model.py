"""Summarizer that calls a chat model, with retries, validation and an extractive fallback."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig

from langchain_tokenmem.background import CircuitBreaker, with_calls_on_loop
from langchain_tokenmem.core.budget import DEFAULT_CONTEXT_WINDOW
from langchain_tokenmem.core.chat_models import model_name, profile_of
from langchain_tokenmem.core.messages import role_of, text_of
from langchain_tokenmem.core.profiles import profile_of_model
from langchain_tokenmem.errors import SummaryError
from langchain_tokenmem.summarize.base import (
    MIN_CHARACTERS,
    Summarizer,
    Summary,
    SummaryRequest,
    check_answer,
)
from langchain_tokenmem.summarize.extractive import ExtractiveSummarizer, ToolExtracts
from langchain_tokenmem.summarize.literal_check import known_text, unknown_literals, without_lines
from langchain_tokenmem.summarize.model_call import (
    JobUsage,
    as_main_call,
    call_config,
    without_bindings,
    without_streaming,
)
from langchain_tokenmem.summarize.prompts import SummaryPrompts, escape_fences, split_transcript
from langchain_tokenmem.summarize.requests import (
    USERS_LANGUAGE,
    PromptBuilder,
    is_cheaper_reused,
    is_same_model,
    tokens_of,
)

ATTEMPTS = 3
COOL_DOWN_S = 300.0

TOOL_SHARE = 0.4
"""On recorded agents (`benchmarks/price.py`) notes of a model alone held 5 points fewer of the far
literals than extracts alone; with this share it is less than half a point."""

MIN_TOKENS = 100
"""A heading and some bullets. At a window of 4,000 three of four batches have less: extracts in
their place lower the price from 0.54 to 0.43 and lose no far literal (`benchmarks/price.py`)."""

_SHORTER = 20
"""How many times shorter than the batch notes of few tokens may be."""

_TARGETS = (1.0, 0.7, 0.5)
"""Share of the token limit that each attempt asks for: models count badly, and exceed it."""

_MAX_NOTES = 4
"""The window divided by this is the maximum of old or new notes: both must fit in one request."""

_PART_NOTES = 8
"""The window divided by this is the maximum of notes on one part of a transcript."""

_MOST_NAMED = 12
"""Maximum literals that a second request names."""

_HEADING_LINE = re.compile(r"^\s*#.*$", re.MULTILINE)

Call = tuple[Runnable[Any, Any], list[BaseMessage], RunnableConfig]
"""A call of a model: the model, its messages, and the config."""

Invoke = Callable[[Runnable[Any, Any], list[BaseMessage], RunnableConfig], Any]
"""Makes a call and returns the answer; for an async caller the event loop makes it."""


class ModelSummarizer:
    r"""Writes entries of the running summary with a chat model, or any runnable to a message.

    Every evicted character is read by exactly one call that counts, in parts that fit the model's
    own window. Answers that are not notes are refused and requested again, shorter; after three
    failures the extractive summarizer writes, and the model is not called for a while. Literals
    that no one said are named in one more call; bullets that still have them are left out. Extracts
    of the tool calls follow the notes, so that no model has to copy them. The model's tokens stay
    out of the user's stream.

    Args:
        model: The model; it is not changed.
        window: Its context window in tokens; default: from its profile, else 16,384.
        prompts: Templates of the requests.
        language: Language of the notes; default: the user's.
        min_messages: Number of meaningful human and AI messages that make a batch worth a call.
        min_characters: Or number of their characters.
        min_tokens: Room for notes, in tokens, from which the model is always called. With less, the
            fallback writes about a batch of over twenty times as many tokens: the model would read
            all of it for a sentence or two.
        reuse_prefix: Send the main request with its tools and settings, up to its last complete
            group, followed by one instruction, so that a provider's prompt cache hits. True: if it
            fits the model's window. None: if it is also cheaper, and the called model is known to
            be this one (`requests.is_cheaper_reused` has the formula). Never for a model other than
            the called one, nor if that is forced to call a tool or bound to a response format:
            then, and if False, the model is unbound from these and reads the batch alone.
        tool_share: Share of an entry's tokens for extracts of its tool calls, if they need so many;
            the rest is for the model. They also get what it leaves unused. 0.0: no extracts.
        fallback: Writes if the model fails.
        cool_down_s: Seconds for which the model is not called after three failures.
        clock: Monotonic clock, in seconds.

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
        min_tokens: int = MIN_TOKENS,
        reuse_prefix: bool | None = None,
        tool_share: float = TOOL_SHARE,
        fallback: Summarizer | None = None,
        cool_down_s: float = COOL_DOWN_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        unbound = without_bindings(model)
        self.name = model_name(model) or type(unbound).__name__
        self.prompts = prompts or SummaryPrompts()
        self.window = window or profile_of(model).get("max_input_tokens") or DEFAULT_CONTEXT_WINDOW
        self.breaker = CircuitBreaker(ATTEMPTS, cool_down_s, clock)
        builder = PromptBuilder(
            self.prompts, language or USERS_LANGUAGE, self.window, profile_of_model(model)
        )
        self._writer = _EntryWriter(
            model, unbound, self.name, builder, self.breaker, reuse_prefix, _invoke
        )
        self._min_messages = min_messages
        self._min_characters = min_characters
        self._min_tokens = min_tokens
        self._tool_share = tool_share
        self._fallback = fallback or ExtractiveSummarizer()

    def __repr__(self) -> str:
        return f"ModelSummarizer({self.name!r})"

    def wants(self, messages: Sequence[BaseMessage]) -> bool:
        """Return whether a batch has enough text by people and models to be worth a call.

        Tool results and tool calls do not count: an extract covers all that matters in them.
        """
        spoken = (message for message in messages if role_of(message) in {"human", "ai"})
        lengths = [len(text_of(message).strip()) for message in spoken]
        meaningful = [length for length in lengths if length >= MIN_CHARACTERS]
        return len(meaningful) >= self._min_messages or sum(meaningful) >= self._min_characters

    def summarize(self, request: SummaryRequest) -> Summary:
        """Return the entry for the request's messages; the fallback's if the model fails."""
        return self._summary(request, _invoke)

    async def asummarize(self, request: SummaryRequest) -> Summary:
        """Do the same as `summarize` without blocking the event loop, which calls the model."""
        return await with_calls_on_loop(_ainvoke, partial(self._summary, request))

    def _is_room_worth_a_call(self, request: SummaryRequest) -> bool:
        if request.max_tokens >= self._min_tokens:
            return True
        return request.max_tokens * _SHORTER >= tokens_of(request.messages, request.count_text)

    def _summary(self, request: SummaryRequest, invoke: Invoke) -> Summary:
        extracts = ToolExtracts(request, self._tool_share)
        notes = extracts.for_model()
        if not self._is_room_worth_a_call(notes):
            return self._fallback.summarize(request)
        writer = replace(self._writer, invoke=invoke, usage=JobUsage())
        try:
            with without_streaming():
                text = writer.entry(notes)
        except _NoNotesError:
            return replace(self._fallback.summarize(request), **vars(writer.usage))
        summary = Summary(text, self.name, self.prompts.version, **vars(writer.usage))
        return extracts.added_to(summary)


def _invoke(model: Runnable[Any, Any], messages: list[BaseMessage], config: RunnableConfig) -> Any:
    return model.invoke(messages, config)


async def _ainvoke(
    model: Runnable[Any, Any], messages: list[BaseMessage], config: RunnableConfig
) -> Any:
    return await model.ainvoke(messages, config)


class _NoNotesError(Exception):
    """The model returned no notes; the failures say why."""


@dataclass(frozen=True)
class _EntryWriter:
    """Decides which calls make one entry, and makes them.

    Attributes:
        given: The summarizing model, as the application gave it.
        model: The same without tools and response formats.
        name: Its name.
        builder: Writes its prompts.
        breaker: Counts failed calls, and stops further ones.
        reuse_prefix: See `ModelSummarizer`.
        invoke: Makes a call.
        usage: Collects what the calls cost and why answers were refused.
    """

    given: Runnable[Any, Any]
    model: Runnable[Any, Any]
    name: str
    builder: PromptBuilder
    breaker: CircuitBreaker
    reuse_prefix: bool | None
    invoke: Invoke
    usage: JobUsage = field(default_factory=JobUsage)

    def entry(self, request: SummaryRequest) -> str:
        """Return the text of the entry that a request asks for.

        Raises:
            _NoNotesError: When the model returned none.
        """
        return self._without_unknown(request, *self._notes(request))

    def _notes(self, request: SummaryRequest) -> tuple[str, Call]:
        """Return the text of an entry, and the call that it answers."""
        if self.breaker.is_open:
            self._failed(f"{self.name} has failed {self.breaker.attempts} times and is paused")
            raise _NoNotesError
        request = self.builder.within_window(request, self.builder.window // _MAX_NOTES)
        model = self._reused_model(request)
        if model is not None:
            try:
                # Once only: a model that prefers its tools reads the batch alone next.
                return self._ask(request, "reuse", "", model=model, targets=(1.0,))
            except _NoNotesError:
                if self.breaker.is_open:
                    raise
        room = self.builder.room(request)
        parts = split_transcript(request.messages, request.count_text, max(room, 1))
        if len(parts) > 1:
            return self._notes_on_parts(request, room)
        return self._ask(request, "condense" if request.condenses else "update", parts[0])

    def _notes_on_parts(self, request: SummaryRequest, room: int) -> tuple[str, Call]:
        """Read a long batch in parts; return the entry made from their notes."""
        # Parts do not see each other or the log; the last call sees both.
        part = replace(request, prior=None, max_tokens=self.builder.window // _PART_NOTES)
        part_room = self.builder.room(part)
        if part_room < part.max_tokens * 2 or room < part.max_tokens:
            self._failed(f"the window of {self.name} ({self.builder.window:,}) is too small")
            raise _NoNotesError
        parts = split_transcript(request.messages, request.count_text, max(part_room, 1))
        notes = [self._ask(part, "leaf", text)[0] for text in parts]
        while sum(map(part.count_text, notes)) + len(notes) > room:
            batch = escape_fences("\n\n".join([notes.pop(0), notes.pop(0)]))
            notes.append(self._ask(part, "part", batch)[0])
        return self._ask(request, "merge", escape_fences("\n\n".join(notes)))

    def _reused_model(self, request: SummaryRequest) -> Runnable[Any, Any] | None:
        """Return the model that sends the main request again, if that is wanted."""
        wanted, called = self.reuse_prefix, request.called
        if wanted is False or request.condenses or not request.sent:
            return None
        if not is_same_model(self.given, called) if called is not None else not wanted:
            return None
        model = as_main_call(self.given, request.tools, request.settings)
        reused = self.builder.reused(request, request.max_tokens)
        if model is None or not self.builder.fits(request, reused[-1:], reuses=True):
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
    ) -> tuple[str, Call]:
        """Ask once, and again with a shorter target if the answer is refused."""
        for attempt, share in enumerate(targets, 1):
            target = int(share * request.max_tokens)
            messages = self.builder.prompt(request, step, transcript, target)
            call = (model or self.model, messages, call_config(step, attempt))
            text = self._answer(request, call)
            if text is not None:
                return text, call
            if self.breaker.is_open:
                break
        raise _NoNotesError

    def _answer(self, request: SummaryRequest, call: Call) -> str | None:
        """Return the notes from a call; None if the answer is refused."""
        self.usage.calls += 1
        try:
            text = self._checked(request, self.invoke(*call))
        except Exception as error:  # noqa: BLE001  # a provider's error is a failed attempt
            kind = "" if isinstance(error, SummaryError) else f"{type(error).__name__}: "
            self._failed(f"{self.name}: {kind}{error}")
            self.breaker.failed()
            return None
        self.breaker.succeeded()
        return text

    def _checked(self, request: SummaryRequest, answer: Any) -> str:
        if isinstance(answer, str):
            answer = AIMessage(answer)
        if not isinstance(answer, BaseMessage):
            raise SummaryError(f"the answer is a {type(answer).__name__}, not a message or text")
        self.usage.add(answer)
        sections = request.sections or self.builder.prompts.sections
        return check_answer(answer, request, sections)

    def _without_unknown(self, request: SummaryRequest, text: str, call: Call) -> str:
        """Return an entry without literals that are not in the messages; ask once more first."""
        known = known_text(request)
        unknown = unknown_literals(text, known)[:_MOST_NAMED]
        if not unknown:
            return text
        named = ", ".join(unknown)
        self._failed(f"{self.name}: the answer has literals that are not in the messages: {named}")
        model, messages, _ = call
        again = self.builder.corrected(messages, text, unknown)
        reuses = model is not self.model
        if self.builder.fits(request, again[-3:] if reuses else again, reuses=reuses):
            corrected = self._answer(request, (model, again, call_config("correct", 1)))
            text = corrected or text
        text, dropped = without_lines(text, lambda line: bool(unknown_literals(line, known)))
        if dropped:
            self._failed(f"{self.name}: left out, as it is not in the messages: {dropped}")
        if not re.search(r"\w", _HEADING_LINE.sub("", text)):
            raise _NoNotesError
        return text

    def _failed(self, why: str) -> None:
        self.usage.failures += (why,)

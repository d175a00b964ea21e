"""Calls of a summarizing model for one entry: a generator that yields them and gets the answers.

Every decision is here; `model.py` makes the calls, once sync and once async.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig

from langchain_tokenmem.circuit_breaker import CircuitBreaker
from langchain_tokenmem.core.messages import text_of
from langchain_tokenmem.errors import SummaryError
from langchain_tokenmem.summarize.base import ProposedOperation, SummaryRequest
from langchain_tokenmem.summarize.checks import check_answer
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
from langchain_tokenmem.summarize.note_operations import as_operations, split_operations
from langchain_tokenmem.summarize.rendering import TranscriptPart, escape_fences, split_transcript
from langchain_tokenmem.summarize.reused_requests import is_cheaper_reused, is_same_model

MOST_MESSAGES = 100

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
class _Job:
    """One request for one entry, and what its calls have taken so far."""

    request: SummaryRequest
    usage: JobUsage


@dataclass(frozen=True)
class WrittenEntry:
    """An entry as a model wrote it.

    Attributes:
        text: Its text.
        operations: Changes of the working notes that stood behind it.
    """

    text: str
    operations: tuple[ProposedOperation, ...] = ()


@dataclass(frozen=True)
class _Answer:
    """An answer that holds notes, and the call that it answers."""

    entry: WrittenEntry
    call: Call

    @property
    def text(self) -> str:
        return self.entry.text


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
    """

    given: Runnable[Any, Any]
    model: Runnable[Any, Any]
    name: str
    builder: PromptBuilder
    breaker: CircuitBreaker
    reuse_prefix: bool | None

    def entry(self, request: SummaryRequest, usage: JobUsage) -> Steps[WrittenEntry]:
        """Yield the calls for an entry; return it.

        Args:
            request: The request for the entry.
            usage: Takes what the calls cost and why answers were refused.

        Raises:
            NoNotesError: When there is no text.
        """
        job = _Job(request, usage)
        answer = yield from self._notes(job)
        return (yield from self._without_unknown(job, answer))

    def _notes(self, job: _Job) -> Steps[_Answer]:
        """Yield the calls of a job; return the answer that is its entry."""
        if self.breaker.is_open:
            job.usage.failures = (
                f"{self.name} has failed {self.breaker.attempts} times and is left alone",
            )
            raise NoNotesError
        request = self.builder.within_window(job.request, self.builder.window // _MAX_NOTES)
        job = replace(job, request=request)
        model = self._reused_model(request)
        if model is not None:
            try:
                # Once only: a model that is drawn to its tools reads the batch alone next.
                return (yield from self._ask(job, "reuse", "", model=model, targets=(1.0,)))
            except NoNotesError:
                if self.breaker.is_open:
                    raise
        room = self.builder.room(request)
        parts = self._parts(request, room)
        if len(parts) > 1:
            return (yield from self._notes_on_parts(job, room))
        step = "condense" if request.condenses else "update"
        return (yield from self._ask(job, step, parts[0].text))

    def _notes_on_parts(self, job: _Job, room: int) -> Steps[_Answer]:
        """Yield the calls that read a long batch in parts; return the entry that they make."""
        # Parts know nothing of each other, nor of the log; the last call sees both.
        part = replace(job.request, prior=None, max_tokens=self.builder.window // _PART_NOTES)
        part_job = replace(job, request=part)
        part_room = self.builder.room(part)
        if part_room < part.max_tokens * 2 or room < part.max_tokens:
            job.usage.failures += (
                f"the window of {self.name} ({self.builder.window:,}) is too small",
            )
            raise NoNotesError
        notes: list[str] = []
        operations: list[ProposedOperation] = []
        for one in self._parts(job.request, part_room):
            answer = yield from self._ask(part_job, "leaf", one.text)
            notes.append(answer.text)
            operations += answer.entry.operations
        while sum(map(part.count_text, notes)) + len(notes) > room:
            batch = escape_fences("\n\n".join([notes.pop(0), notes.pop(0)]))
            notes.append((yield from self._ask(part_job, "part", batch)).text)
        merged = yield from self._ask(job, "merge", escape_fences("\n\n".join(notes)))
        return replace(merged, entry=WrittenEntry(merged.text, as_operations(operations)))

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

    def _parts(self, request: SummaryRequest, room: int) -> list[TranscriptPart]:
        return split_transcript(
            request.messages,
            most_tokens=max(room, 1),
            most_messages=MOST_MESSAGES,
            count_text=request.count_text,
        )

    def _ask(
        self,
        job: _Job,
        step: str,
        transcript: str,
        *,
        model: Runnable[Any, Any] | None = None,
        targets: Sequence[float] = _TARGETS,
    ) -> Steps[_Answer]:
        """Yield one call, again with a shorter target where the answer is refused."""
        for attempt, share in enumerate(targets, 1):
            target = int(share * job.request.max_tokens)
            messages = self.builder.prompt(job.request, step, transcript, target)
            call = (
                model or self.model,
                messages,
                unstreamed_config(step, attempt),
            )
            entry = yield from self._answered(job, call)
            if entry is not None:
                return _Answer(entry, call)
            if self.breaker.is_open:
                break
        raise NoNotesError

    def _answered(self, job: _Job, call: Call) -> Steps[WrittenEntry | None]:
        """Yield a call; return its notes, or None where the answer is refused."""
        job.usage.calls += 1
        answer = yield call
        try:
            entry = self._checked(answer, job)
        except SummaryError as refused:
            job.usage.failures += (f"{self.name}: {refused}",)
            self.breaker.failed()
            return None
        self.breaker.succeeded()
        return entry

    def _checked(self, answer: Any, job: _Job) -> WrittenEntry:
        if isinstance(answer, Exception):
            raise SummaryError(f"{type(answer).__name__}: {answer}") from answer
        if isinstance(answer, str):
            answer = AIMessage(answer)
        if not isinstance(answer, BaseMessage):
            raise SummaryError(f"the answer is a {type(answer).__name__}, no message and no text")
        job.usage.add(answer)
        sections = job.request.sections or self.builder.prompts.sections
        operations: tuple[ProposedOperation, ...] = ()
        if job.request.notes is not None:
            text, operations = split_operations(text_of(answer))
            answer = answer.model_copy(update={"content": text})
        return WrittenEntry(check_answer(answer, job.request, sections), operations)

    def _without_unknown(self, job: _Job, answer: _Answer) -> Steps[WrittenEntry]:
        """Return an entry without literals that nobody said; one more call names them."""
        known = known_text(job.request)
        text, unknown = answer.text, unknown_literals(answer.text, known)
        if not unknown:
            return answer.entry
        named = ", ".join(unknown[:_MOST_NAMED])
        job.usage.failures += (f"{self.name}: the answer has literals that nobody said: {named}",)
        model, messages, _ = answer.call
        again = self.builder.corrected(messages, text, unknown[:_MOST_NAMED])
        if self.builder.fits(job.request, again):
            call = (model, again, unstreamed_config("correct", 1))
            corrected = yield from self._answered(job, call)
            text = corrected.text if corrected else text
        text, dropped = without_lines(text, lambda line: bool(unknown_literals(line, known)))
        if dropped:
            job.usage.failures += (f"{self.name}: left out, as nobody said it: {dropped}",)
        if not re.search(r"\w", _HEADING_LINE.sub("", text)):
            raise NoNotesError
        return replace(answer.entry, text=text)

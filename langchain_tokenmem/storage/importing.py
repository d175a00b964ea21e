"""Imports a history into a session, page by page; an import can be repeated at any time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, islice
from typing import Any

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage, HumanMessage
from sqlalchemy import Connection, select

from langchain_tokenmem.core.message_times import moment_of
from langchain_tokenmem.core.messages import (
    digest_of,
    marked,
    marks_of,
    reference,
    role_of,
    text_of,
)
from langchain_tokenmem.errors import ConfigurationError, HistoryImportError, StoreError
from langchain_tokenmem.state import MemoryState, RunningSummary, SummaryEntry, new_state
from langchain_tokenmem.storage.import_sources import PAGE, SourceMessage, messages_of
from langchain_tokenmem.storage.message_json import (
    EncodedMessage,
    created_at_of,
    to_json,
)
from langchain_tokenmem.storage.search_index import SearchIndex
from langchain_tokenmem.storage.sessions import Session, has_checkpoints, save_state
from langchain_tokenmem.storage.tables import messages
from langchain_tokenmem.storage.transcripts import add_wordings, append, hashes_of, hide, read_named

SUMMARY = "summary"
"""Position of the message that holds the summary of the source's memory."""

Progress = Callable[[int], None]
"""Called after each page with the number of imported messages."""


@dataclass(frozen=True)
class ImportReport:
    """Result of an import.

    Attributes:
        session_id: The session.
        added: Messages that are new.
        known: Messages that the session already had.
        renamed: New messages with a generated id, because another message has theirs.
        has_summary: Whether the session received the summary or the state of the source.
    """

    session_id: str
    added: int = 0
    known: int = 0
    renamed: int = 0
    has_summary: bool = False

    @property
    def done(self) -> int:
        """Messages of the source that the session has now."""
        return self.added + self.known


@dataclass(frozen=True)
class PageMessage:
    """A message to store.

    Attributes:
        row: The message; without an id if that is generated.
        position: Its place in the source, from which ids are generated.
        is_shown: Whether this wording is shown.
        others: Its other wordings in order, each with whether it is shown.
    """

    row: EncodedMessage
    position: str
    is_shown: bool = True
    others: Sequence[tuple[EncodedMessage, bool]] = ()

    @property
    def id(self) -> str:
        """The id that it is stored under."""
        return self.row.stored.id or ""

    @property
    def is_summary(self) -> bool:
        """Whether it holds a summary: only a new session can begin with it."""
        return self.position == SUMMARY


@dataclass
class PageWriter:
    """Appends pages of messages to one session; existing messages are not changed.

    Attributes:
        writing: Opens a write transaction on the session and creates the session if needed.
        index: Indexes the new messages.
        now: Time of messages without one.
        first: Number of the first message of a new session; None for any.
        report: What was imported so far.
    """

    writing: Callable[[], AbstractContextManager[tuple[Connection, Session]]]
    index: SearchIndex
    now: datetime
    first: int | None
    report: ImportReport

    def store(self, page: Sequence[PageMessage]) -> list[PageMessage]:
        """Store a page in one transaction; return those of its messages that the session has now.

        Raises:
            ScopeError: When the session belongs to another user.
            StoreError: When it is a thread with checkpoints.
        """
        with self.writing() as (connection, session):
            if has_checkpoints(connection, session):
                raise StoreError(
                    f"Session {session.name!r} is a thread with checkpoints; import into a session "
                    f"of another name, or give the messages to the graph: graph.update_state."
                )
            if self.first and not session.last_seq and session.state is None:
                session.first_seq = session.words_from = session.vectors_from = self.first
                session.last_seq = self.first - 1
            wanted = _under_free_ids(connection, session, page)
            rows = [one.row for one in wanted]
            added, _ = append(connection, session, rows, self.now, only_new=True)
            change = self.index.appended(connection, session, added)
            self._edit(connection, session, wanted)
        self.index.tell(change)
        new = {row.message.id for row in added}
        self.report = replace(
            self.report,
            added=self.report.added + len(new),
            known=self.report.known + len(page) - len(new),
            renamed=self.report.renamed + len(new - {one.id for one in page}),
        )
        return wanted

    def store_all(
        self, given: Iterable[PageMessage], progress: Progress | None
    ) -> Iterator[list[PageMessage]]:
        """Store messages in pages, each in its own transaction; yield what `store` returns.

        Raises:
            HistoryImportError: When one cannot be read; it says how many messages are stored.
        """
        waiting = iter(given)
        with self.counting():
            while page := list(islice(waiting, PAGE)):
                yield self.store(page)
                if progress is not None:
                    progress(self.report.done)

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Let the errors of a source say how many of its messages are stored."""
        try:
            yield
        except HistoryImportError as error:
            raise HistoryImportError(error.what, error.where, self.report.done) from error

    def begin_with(
        self,
        first_id: str | None,
        state: MemoryState | None,
        settings: dict[str, Any] | None = None,
    ) -> None:
        """Give the session a state and settings, if it has none and begins like the source.

        Args:
            first_id: Id of the first message of the source; None if it has no message.
            state: The state.
            settings: The settings.
        """
        with self.writing() as (connection, session):
            own = (messages.c.session == session.id, messages.c.seq == session.first_seq)
            there = connection.execute(select(messages.c.message_id).where(*own)).scalar()
            if there != first_id:
                return
            if settings is not None and session.settings is None:
                session.settings = to_json(settings)[0]
            if state is not None and session.state is None:
                save_state(connection, session, state)
                self.report = replace(self.report, has_summary=True)

    def _edit(
        self, connection: Connection, session: Session, wanted: Sequence[PageMessage]
    ) -> None:
        """Store the other wordings of messages; messages edited here are not changed."""
        edited = {one.id: one for one in wanted if one.others or not one.is_shown}
        rows = read_named(connection, session, edited)
        held = [row.seq for row in rows]
        changed = [row for row in rows if held.count(row.seq) == 1 and row.is_shown]
        for row in changed:
            one = edited[row.message.id or ""]
            if not one.is_shown:
                hide(connection, session, [row.seq])
            add_wordings(connection, session, row.seq, one.others, self.now)
        if changed:
            session.edits += len(changed)
            self.index.edited(connection, session, [row.seq for row in changed])


def _under_free_ids(
    connection: Connection, session: Session, page: Sequence[PageMessage]
) -> list[PageMessage]:
    """Return the page, with a generated id for a message whose id another one has.

    Some model servers give all their answers the same id. An import only adds, and loses nothing.
    """
    stored = hashes_of(connection, session, [one.id for one in page])
    wanted: list[PageMessage] = []
    for one in page:
        digest = digest_of(one.row.stored)
        if one.is_summary and session.count and digest not in stored.get(one.id, ()):
            continue  # the session is not new
        is_free = digest in stored.setdefault(one.id, {digest})
        wanted.append(one if is_free else renamed(one))
    return wanted


def renamed(one: PageMessage) -> PageMessage:
    """Return a message with an id that the same message at the same place always gets."""
    before = one.row
    name = f"{one.position}\n{digest_of(before.stored)}"
    made_up = f"imported-{hashlib.blake2b(name.encode(), digest_size=12).hexdigest()}"
    given = before.given.model_copy(update={"id": None})
    row = EncodedMessage(given, made_up, created_at=before.created_at, is_dated=before.is_dated)
    return PageMessage(row, one.position)


_NAMES = ("created_at", "timestamp", "created")


def given_time(message: BaseMessage) -> str | None:
    """Return the time that a message carries, as ISO 8601, or None.

    That is `created_at` among the memory's own marks; else `created_at`, `timestamp` or `created`
    in its `additional_kwargs` or `response_metadata`, as ISO 8601 or in seconds since 1970: Ollama
    and OpenAI say so in their replies.
    """
    own = marks_of(message).get("created_at")
    if own is not None:
        return str(own)
    for fields in (message.additional_kwargs, message.response_metadata):
        for name in _NAMES if isinstance(fields, dict) else ():
            moment = moment_of(fields.get(name))
            if moment is not None:
                return moment.isoformat()
    return None


# --- summaries of other memories

IMPORTED = "imported"
"""Reason and prompt version of an entry that another memory wrote."""

_MIDDLEWARE = "Here is a summary of the conversation to date:"
_MARK = {"lc_source": "summarization"}
"""Set by LangChain's SummarizationMiddleware on its summaries."""

_BEGINNINGS = {
    _MIDDLEWARE: "SummarizationMiddleware",
    "Summary of the conversation so far:": "langmem",
    "Summary of conversation earlier:": "langgraph",
}
"""Prefixes of system messages with a summary, and the memory that writes each."""

_LAST_IDS = 8
_BYTES_A_TOKEN = 3
"""Every language tested has more, so that the count is too high rather than too low."""


@dataclass(frozen=True)
class OldSummary:
    """A summary of another memory.

    Attributes:
        text: Its text.
        model: Name of the memory that wrote it.
        covers: How many messages of the source it covers, without system messages.
        is_carried: Whether the last of them exists only to hold the summary.
    """

    text: str
    model: str
    covers: int = 1
    is_carried: bool = True

    def state(self, beginning: Sequence[tuple[str, str]], now: datetime) -> MemoryState | None:
        """Return the state that starts with the summary, or None if nothing is covered.

        Args:
            beginning: Role and id of the first messages of the source.
            now: When it was imported.
        """
        covered: list[str] = []
        kept: list[str] = []
        human: list[str] = []
        for role, message_id in beginning:
            if len(covered) >= self.covers and role not in {"tool", "function"}:
                break  # results of covered calls are covered
            (kept if role == "system" else covered).append(message_id)
            human += [message_id] if role == "human" else []
        if not covered:
            return None
        if not self.is_carried:
            kept += human[:1]
        last_ids = covered[: -_LAST_IDS - 1 : -1]
        entry: SummaryEntry = {
            "id": hashlib.blake2b(ascii(self.text).encode(), digest_size=8).hexdigest(),
            "text": self.text,
            "first": reference(covered[0]),
            "covered": len(covered),
            "since": None,
            "until": None,
            "last_ids": last_ids,
            "tokens": -(-len(self.text.encode("utf-8", "replace")) // _BYTES_A_TOKEN),
            "model": self.model,
            "prompt_version": IMPORTED,
            "reason": IMPORTED,
            "created_at": now.isoformat(),
            "failures": [],
        }
        log: RunningSummary = {
            "entries": [entry],
            "covers_to": last_ids[0],
            "covered": len(covered),
        }
        return {**new_state(), "kept": kept, "summary": log}


def recognised(message: BaseMessage, given: str) -> OldSummary | None:
    """Return the summary that the first message of a history contains, or None.

    Args:
        message: The message.
        given: The summary as passed by the application, or empty: a `ConversationSummaryMemory`
            puts it into a system message without marking it.
    """
    role, text = role_of(message), text_of(message).strip()
    has_mark = all(message.additional_kwargs.get(key) == value for key, value in _MARK.items())
    if role == "system" and given and text == given:
        return OldSummary(text, "ConversationSummaryMemory")
    if role == "system" or (role == "human" and has_mark):
        for beginning, model in _BEGINNINGS.items():
            rest = text.removeprefix(beginning)
            if rest != text and rest.strip():
                return OldSummary(rest.strip(), model)
    if role == "human" and has_mark and text:
        return OldSummary(text, "SummarizationMiddleware")
    return None


def carrier_of(summary: OldSummary, message: BaseMessage | None = None) -> BaseMessage:
    """Return the message that represents a summary in the transcript, in LangChain's own form.

    It is a human message, because a covered system message would stay visible beside the log.

    Args:
        summary: The summary.
        message: The message that contained it, if any; its id is kept.
    """
    if message is not None and role_of(message) == "human":
        return message
    name = None if message is None else message.id
    return HumanMessage(f"{_MIDDLEWARE}\n\n{summary.text}", id=name, additional_kwargs=dict(_MARK))


# --- importing them


Source = BaseChatMessageHistory | Iterable[Any]
"""A chat history, or messages in any form that LangChain accepts."""


def import_history(
    writer: PageWriter,
    source: Source,
    *,
    summary: str | None,
    covers: int,
    progress: Progress | None,
) -> ImportReport:
    """Store the messages of a source, then its summary.

    Args:
        writer: Stores the messages in pages.
        source: The source.
        summary: Text of a summary that the source's memory has made.
        covers: How many messages of the source it covers; 0 if they are not in the source.
        progress: Called after each page.

    Raises:
        ConfigurationError: When `covers` is negative, or given without a summary.
        HistoryImportError: When a message cannot be imported; those before it are stored.
    """
    if covers < 0 or (covers and summary is None):
        raise ConfigurationError(
            f"summary_covers is {covers}; it is the number of messages that summary= covers."
        )
    given = messages_of(source)
    with writer.counting():
        first, old = _with_summary(list(islice(given, PAGE)), (summary or "").strip(), covers)
    beginning: list[tuple[str, str]] = []
    messages = _encoded(chain(first, given), writer.now)
    for number, stored in enumerate(writer.store_all(messages, progress)):
        if old and not number and old.is_carried and not any(one.is_summary for one in stored):
            old = None  # an existing session keeps its own beginning
        beginning += [(role_of(one.row.stored), one.id) for one in stored if old]
    state = old.state(beginning, writer.now) if old else None
    if state is not None:
        writer.begin_with(beginning[0][1], state)
    return writer.report


def _with_summary(
    first: list[SourceMessage], given: str, covers: int
) -> tuple[list[SourceMessage], OldSummary | None]:
    """Return the first page with its summary as it is stored, and the summary, if there is one."""
    for number, one in enumerate(first):
        if found := recognised(one.message, given):
            first[number] = replace(one, message=carrier_of(found, one.message), position=SUMMARY)
            return first, replace(found, covers=covers + 1)
        if role_of(one.message) != "system":
            break
    if not given:
        return first, None
    found = OldSummary(given, "summary=", covers or 1, is_carried=not covers)
    carrier = SourceMessage(carrier_of(found), SUMMARY, "summary=")
    return [carrier, *first] if found.is_carried else first, found


def _encoded(given: Iterable[SourceMessage], now: datetime) -> Iterator[PageMessage]:
    """Yield messages with their times, each under its own id or a generated one.

    Raises:
        HistoryImportError: When one cannot be stored.
    """
    before = now
    for one in given:
        try:
            time = given_time(one.message)
            if time is not None:
                before = created_at_of(marked(one.message, created_at=time), now)
            row = EncodedMessage(one.message, created_at=before, is_dated=time is not None)
            found = PageMessage(row, one.position)
            if not found.id:
                found = renamed(found)
            _ = found.row.encoding
        except (ConfigurationError, AttributeError, TypeError) as error:
            raise HistoryImportError(str(error), one.where) from error
        yield found

"""Appends pages of messages to a session, each in one transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection

from langchain_tokenmem.core.messages import digest_of
from langchain_tokenmem.core.search_units import Change
from langchain_tokenmem.errors import StoreError
from langchain_tokenmem.storage.checkpoints.thread_sessions import refuse_checkpointed
from langchain_tokenmem.storage.database.database import Database
from langchain_tokenmem.storage.search_index.store import IndexStore
from langchain_tokenmem.storage.transcripts.appending import append_indexed, hashes_by_key
from langchain_tokenmem.storage.transcripts.encoded_message import (
    EncodedMessage,
    content_digest,
    key_of,
)
from langchain_tokenmem.storage.transcripts.message_rows import keys_at
from langchain_tokenmem.storage.transcripts.sessions import (
    SessionRow,
    checked_id,
    find_or_make,
    save,
)

Progress = Callable[[int], None]
"""Called after each page with the number of messages that are done."""


@dataclass(frozen=True)
class ImportReport:
    """Result of an import.

    Attributes:
        session_id: The session.
        added: Messages that are new.
        known: Messages that the session had already.
        renamed: Those of the new ones that stand under a made-up id, because another message of
            the session has theirs.
        has_summary: Whether the session has got the summary, or the state, of the source.
    """

    session_id: str
    added: int = 0
    known: int = 0
    renamed: int = 0
    has_summary: bool = False

    @property
    def done(self) -> int:
        """Messages of the source that the session has."""
        return self.added + self.known


@dataclass(frozen=True)
class PageMessage:
    """A message that is to be stored.

    Attributes:
        row: The message; without an id of its own where that is made up.
        message_id: The id under which it is stored.
        position: Its place in the source, from which ids are made up.
        is_first_only: Whether it belongs at the beginning of a new session, or nowhere.
        is_renamed: Whether another message has its id.
    """

    row: EncodedMessage
    message_id: str
    position: str
    is_first_only: bool = False
    is_renamed: bool = False


class PageWriter:
    """Appends pages of messages to one session; what is there stays as it is.

    Args:
        database: Where the session is.
        index: Takes what is appended.
        session_id: Names the session.
        user_id: Its owner.
        now: Time of messages that bring none.
    """

    def __init__(
        self,
        database: Database,
        index: IndexStore,
        session_id: str,
        *,
        user_id: str | None,
        now: datetime,
    ) -> None:
        index.make_ready()
        self._database, self.index, self._user_id, self._now = database, index, user_id, now
        self.report = ImportReport(checked_id(session_id))

    def store(
        self,
        page: Sequence[PageMessage],
        *,
        prepare: Callable[[Connection, SessionRow], SessionRow] = lambda _, session: session,
        finish: Callable[[Connection, SessionRow], Change | None] = lambda _, __: None,
    ) -> list[PageMessage]:
        """Store a page in one transaction.

        Args:
            page: The messages.
            prepare: Called with the session's row before, gives the row to begin with.
            finish: Called with the session's row as it is then.

        Returns:
            The messages of the page that the session has now.

        Raises:
            ScopeError: When the session belongs to another user.
            StoreError: When it is a thread with checkpoints.
        """
        with self._database.writing(f"Session {self.report.session_id!r}") as connection:
            session = find_or_make(connection, self.report.session_id, self._user_id)
            _refuse_thread(connection, session)
            session = prepare(connection, session)
            wanted = _under_free_ids(connection, session, page)
            rows = [one.row for one in wanted]
            added, change = append_indexed(
                connection, self.index, session, rows, self._now, of_thread=True
            )
            longer = replace(session, last_seq=session.last_seq + len(added))
            change = finish(connection, longer) or change
        self.index.tell(change)
        new = {row.message.id for row in added}
        renamed = sum(one.is_renamed and one.message_id in new for one in wanted)
        self.report = replace(
            self.report,
            added=self.report.added + len(added),
            known=self.report.known + len(page) - len(added),
            renamed=self.report.renamed + renamed,
        )
        return wanted

    def begin_with(self, first_id: str | None, state: str | None, budget: str | None) -> None:
        """Give the session a state and a budget, where it has none and begins like the source.

        Args:
            first_id: Id of the first message of the source; None where it has no message.
            state: The state as JSON.
            budget: The budget as JSON.
        """
        with self._database.writing(f"Session {self.report.session_id!r}") as connection:
            session = find_or_make(connection, self.report.session_id, self._user_id)
            there = keys_at(connection, session.key, [session.first_seq]).get(session.first_seq)
            if there != (None if first_id is None else key_of(first_id)):
                return
            is_free = state is not None and session.state is None
            changed = replace(
                session,
                version=session.version + is_free,
                state=state if is_free else session.state,
                budget=session.budget or budget,
            )
            save(connection, changed)
        self.report = replace(self.report, has_summary=is_free)


def _refuse_thread(connection: Connection, session: SessionRow) -> None:
    """Raise if a session is a thread: its checkpoints would not name what is imported."""
    try:
        refuse_checkpointed(connection, session)
    except StoreError as error:
        raise StoreError(
            f"Session {session.session_id!r} is a thread with checkpoints; import into a session "
            f"of another name, or give the messages to the graph: graph.update_state."
        ) from error


def _under_free_ids(
    connection: Connection, session: SessionRow, page: Sequence[PageMessage]
) -> list[PageMessage]:
    """Return the page, a message under a made-up id where another one has its own.

    Some model servers give all of their answers one id. An import only adds, and loses nothing.
    """
    keys = [key_of(one.message_id) for one in page]
    hashes = hashes_by_key(connection, session.key, keys)
    stored = {key: content_digest(given) for key, given in hashes.items()}
    wanted: list[PageMessage] = []
    for key, one in zip(keys, page, strict=True):
        if one.is_first_only and session.count and stored.get(key) != one.row.digest:
            continue  # the session has begun
        if stored.setdefault(key, one.row.digest) == one.row.digest:
            wanted.append(one)
        else:
            wanted.append(renamed(one))
    return wanted


def renamed(one: PageMessage) -> PageMessage:
    """Return a message under an id that the same message at the same place always gets."""
    message = one.row.given
    name = f"{one.position}\n{digest_of(message)}"
    made_up = f"imported-{hashlib.blake2b(name.encode(), digest_size=12).hexdigest()}"
    given = message.model_copy(update={"id": None}) if message.id else message
    before = one.row
    row = EncodedMessage(given, made_up, created_at=before.created_at, is_dated=before.is_dated)
    return replace(one, row=row, message_id=made_up, is_renamed=True)

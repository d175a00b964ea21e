"""One reader of sessions: of our store, a checkpointer's database, an export or a recording.

Everything that is not our store is read into one in memory first, so there is one way to look.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from langchain_tokenmem.adapters.migration import langgraph_saver, migrate_checkpoints
from langchain_tokenmem.cli.measures import ReferenceCounter, reference_counter, text_of
from langchain_tokenmem.cli.transfer import (
    SourceKind,
    as_url,
    check_file,
    kind_of,
    named_sessions,
    printable,
    sessions_of,
)
from langchain_tokenmem.core.messages import role_of
from langchain_tokenmem.core.thread_names import NAMESPACE_SEPARATOR, is_subgraph_session
from langchain_tokenmem.errors import ScopeError
from langchain_tokenmem.state import MemoryState, load_state, new_state
from langchain_tokenmem.storage.database_url import parsed
from langchain_tokenmem.storage.import_sources import history_engine, tables_in
from langchain_tokenmem.storage.sessions import Session, page_of_sessions
from langchain_tokenmem.storage.transcripts import TranscriptRow, read, visible

_TITLE = 200
"""Characters of a title."""
_TYPED_SEPARATOR = "\N{SYMBOL FOR UNIT SEPARATOR}"
_PAGE = 500
"""Sessions that are counted in one transaction."""
_FIRST = 8
"""Messages at the beginning among which the title is looked for."""


@dataclass(frozen=True)
class SessionFacts:
    """What a list says of one session.

    Attributes:
        session: Its id.
        user: Its owner, if it has one.
        messages: How many messages it has.
        tokens: Tokens of them all; exact for o200k_base.
        active_at: Time of its newest message in UTC, if known.
        title: The beginning of its first human message.
    """

    session: str
    user: str | None
    messages: int
    tokens: int
    active_at: datetime | None
    title: str


@dataclass(frozen=True)
class StoredSessions:
    """Sessions that can be looked at.

    Attributes:
        store: The store that has them.
        tools: Tool schemas of a recording, by session.
        is_store: Whether it is the application's own store, not a copy in memory.
    """

    store: TranscriptStore
    tools: dict[str, Sequence[dict[str, Any]]] = field(default_factory=dict)
    is_store: bool = False

    def page(
        self, *, user: str | None = None, matching: str = "", limit: int = 20, offset: int = 0
    ) -> tuple[list[SessionFacts], bool]:
        """Return some sessions, those active last first, and whether there are no more."""
        counter = reference_counter()
        with self.store.database.reading("The list of sessions") as connection:
            # One more than asked for: to count them all takes longer, the more there are.
            found = page_of_sessions(
                connection, user_id=user, matching=matching, limit=limit + 1, offset=offset
            )
            return [
                _facts_of(one, visible(read(connection, one, one.first_seq)), counter)
                for one in found[:limit]
            ], len(found) <= limit

    def totals(self) -> dict[str, Any]:
        """Return counts of everything: numbers, and the time of the newest message."""
        counted: Counter[str] = Counter(sessions=0, owners=0, messages=0, tokens=0, summaries=0)
        owners, newest = set(), None
        for offset in count(0, _PAGE):
            some, is_last = self.page(limit=_PAGE, offset=offset)
            for one in some:
                state = self.state(one.session)
                folds = state["totals"]["summaries"] if state else 0
                counted.update(
                    sessions=1, messages=one.messages, tokens=one.tokens, summaries=folds
                )
                newest = max(filter(None, (newest, one.active_at)), default=None)
                owners.add(one.user)
            if is_last:
                break
        owned = len(owners - {None})
        return {**counted, "owners": owned, "last_activity": newest}

    def state(self, session: str) -> MemoryState | None:
        """Return the memory's state of a session, or of a thread's newest checkpoint."""
        stored = self.store.state(session).state
        if stored is not None:
            return stored
        if is_subgraph_session(session):
            return None
        config: Any = {"configurable": {"thread_id": session, "checkpoint_ns": ""}}
        newest = TokenMemorySaver(self.store).get_tuple(config)
        return None if newest is None else state_in(newest.checkpoint["channel_values"])

    def rows(self, session: str) -> list[TranscriptRow]:
        """Return the messages of a session with their times.

        Raises:
            ScopeError: When there is no such session.
        """
        rows = self.store.rows(session)
        if not rows and session not in self.store.sessions():
            raise ScopeError(
                f"There is no session {session!r} here; `tokenmem sessions` lists them."
            )
        return rows

    def checkpoints(self, session: str) -> list[dict[str, Any]]:
        """Return the values of a thread's checkpoints, oldest first; none where it has none.

        A sub-graph has many namespaces, one for each task: its calls are played again.
        """
        if is_subgraph_session(session):
            return []
        config: Any = {"configurable": {"thread_id": session, "checkpoint_ns": ""}}
        found = [*TokenMemorySaver(self.store).list(config)]
        return [one.checkpoint["channel_values"] for one in reversed(found)]


def _facts_of(
    session: Session, rows: Sequence[TranscriptRow], counter: ReferenceCounter
) -> SessionFacts:
    messages = [row.message for row in rows]
    when = max((row.created_at for row in rows if row.is_dated), default=None)
    tokens = counter.messages(messages)
    title = title_of(messages)
    return SessionFacts(session.name, session.user_id, len(rows), tokens, when, title)


def shown_name(session: str) -> str:
    """Return the id of a session as it is printed; that of a sub-graph can be typed in."""
    return printable(session.replace(NAMESPACE_SEPARATOR, _TYPED_SEPARATOR))


def typed_name(session: str) -> str:
    """Return the id of a session that a user has typed."""
    return session.replace(_TYPED_SEPARATOR, NAMESPACE_SEPARATOR)


def title_of(messages: Sequence[BaseMessage]) -> str:
    """Return the beginning of the first human message on one line."""
    first = next((m for m in messages[:_FIRST] if role_of(m) == "human"), None)
    text = "" if first is None else printable(" ".join(text_of(first).split()))
    return text if len(text) <= _TITLE else f"{text[: _TITLE - 1].rstrip()}…"


def state_in(values: Mapping[str, Any]) -> MemoryState | None:
    """Return the memory's state among the values of a checkpoint."""
    agents = values.get("token_memory")
    inner = agents.values() if isinstance(agents, Mapping) else ()
    states = (
        one
        for one in (*inner, *values.values())
        if isinstance(one, dict) and new_state().keys() <= one.keys()
    )
    found = next(states, None)
    return None if found is None else load_state(found)


@contextmanager
def opened(source: str, session: str | None = None) -> Iterator[StoredSessions]:
    """Open what the user named.

    Args:
        source: Our store, a checkpointer's database or a table of chat histories (URL or SQLite
            file), an export, or a recording.
        session: The only session that is needed: of another checkpointer's database no other
            thread is read.

    Raises:
        ConfigurationError: When it is none of these.
        OSError: When a file cannot be read.
    """
    if _is_ours(source):
        with TranscriptStore(as_url(source), shared=True) as store:
            yield StoredSessions(store, is_store=True)
        return
    kind = kind_of(source, "message_store")
    with TranscriptStore("sqlite://", shared=True) as store:
        found = StoredSessions(store)
        if kind is SourceKind.messages:
            _read_file(Path(source), found)
        elif kind is SourceKind.sql:
            for name, history, _ in sessions_of(kind, source, "message_store", session):
                store.import_history(history, name or "")
        else:
            ours = TokenMemorySaver(store)
            with langgraph_saver(parsed(as_url(source)), ours.serde) as theirs:
                if theirs is not None:
                    migrate_checkpoints(theirs, ours, threads=session and [session])
        yield found


def _read_file(file: Path, found: StoredSessions) -> None:
    for one, called in named_sessions(file, None):
        if one.lines is not None:
            found.store.import_session(one.lines, called)
        elif one.messages is not None:
            name = called or file.name
            found.store.import_history(one.messages, name)
            found.tools[name] = one.tools


def _is_ours(source: str) -> bool:
    if "://" not in source and kind_of(source, None) is SourceKind.messages:
        return False
    check_file(source)
    with history_engine(parsed(as_url(source))) as engine:
        return "tokenmem_sessions" in tables_in(engine)

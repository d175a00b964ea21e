"""What STORE, FROM and TO name: our store, a checkpointer's database, an export, a recording.

Everything that is not our store is read into one in memory first, so there is one way to look.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_tokenmem import Recall, TokenMemorySaver, TranscriptStore
from langchain_tokenmem.adapters.importing import (
    MESSAGE_STORE,
    FileSession,
    is_database,
    sessions_in_file,
    sql_histories,
)
from langchain_tokenmem.adapters.migration import (
    langgraph_saver,
    migrate_checkpoints,
)
from langchain_tokenmem.cli.measures import ReferenceCounter, reference_counter, text_of
from langchain_tokenmem.cli.terminal import many, on_one_line
from langchain_tokenmem.cli.transfer import SourceKind, SourceTables, TargetTables
from langchain_tokenmem.core.facts.own_words import own_words
from langchain_tokenmem.core.messages import role_of
from langchain_tokenmem.core.search_units import Hit
from langchain_tokenmem.core.thread_names import is_subgraph_session
from langchain_tokenmem.errors import ConfigurationError, CorruptStoreError, ScopeError
from langchain_tokenmem.state import MemoryState, load_state, new_state
from langchain_tokenmem.storage.database_url import of_file, parsed
from langchain_tokenmem.storage.import_sources import history_engine, tables_in
from langchain_tokenmem.storage.serializer import LookingSerializer, StateSerializer
from langchain_tokenmem.storage.sessions import Session, page_of_sessions
from langchain_tokenmem.storage.transcripts import TranscriptRow, read, visible

_TITLE = 200
"""Characters of a title."""
_DAMAGED = "(damaged; run `tokenmem doctor`)"
_PAGE = 500
"""Sessions that are counted in one transaction."""
_FIRST = 8
"""Messages at the beginning among which the title is looked for."""


@dataclass(frozen=True)
class SessionFacts:
    """What a list shows of one session.

    Attributes:
        session: Its id.
        user: Its owner, if it has one.
        messages: How many messages it has.
        tokens: Tokens of them all; exact for o200k_base.
        active_at: Time of its newest message in UTC, if known.
        title: The beginning of what its first human message says; says so if a message is damaged.
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
    """

    store: TranscriptStore
    tools: dict[str, Sequence[dict[str, Any]]] = field(default_factory=dict)

    def page(
        self, *, user: str | None = None, matching: str = "", limit: int = 20, offset: int = 0
    ) -> tuple[list[SessionFacts], bool]:
        """Return some sessions, most recently active first, and whether there are no more."""
        counter = reference_counter()
        with self.store.database.reading("The list of sessions") as connection:
            # One more than asked for: counting them all takes longer the more there are.
            found = page_of_sessions(
                connection, user_id=user, matching=matching, limit=limit + 1, offset=offset
            )
            listed = [
                _facts_of(one, partial(read, connection, one), counter) for one in found[:limit]
            ]
            return listed, len(found) <= limit

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
        newest = next(self._checkpoints(session, limit=1), None)
        return None if newest is None else state_in(newest)

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

    def search(
        self, query: str, *, session: str | None = None, user: str | None = None, k: int
    ) -> list[Hit]:
        """Return the best hits in one session, or in all of them.

        Raises:
            ScopeError: When there is no such session.
        """
        names = self.store.sessions(user_id=user) if session is None else [session]
        if session is not None:
            self.rows(session)
        recall = Recall(self.store)
        hits = [hit for name in names for hit in recall.search(query, session_id=name, k=k)]
        return sorted(hits, key=lambda hit: -hit.score)[:k]

    def checkpoints(self, session: str) -> list[dict[str, Any]]:
        """Return the values of a thread's checkpoints, oldest first; empty if it has none.

        A sub-graph has many namespaces, one for each task: its calls are replayed.
        """
        return [*self._checkpoints(session)][::-1]

    def _checkpoints(self, session: str, limit: int | None = None) -> Iterator[dict[str, Any]]:
        config: Any = {"configurable": {"thread_id": session, "checkpoint_ns": ""}}
        if not is_subgraph_session(session):
            for one in looking_saver(self.store).list(config, limit=limit):
                yield one.checkpoint["channel_values"]


def _facts_of(
    session: Session, read_rows: Callable[[], list[TranscriptRow]], counter: ReferenceCounter
) -> SessionFacts:
    try:
        rows = visible(read_rows())
    except CorruptStoreError:  # the other sessions can be read
        return SessionFacts(session.name, session.user_id, session.count, 0, None, _DAMAGED)
    messages = [row.message for row in rows]
    when = max((row.created_at for row in rows if row.is_dated), default=None)
    tokens = counter.messages(messages)
    title = title_of(messages)
    return SessionFacts(session.name, session.user_id, len(rows), tokens, when, title)


def title_of(messages: Sequence[BaseMessage]) -> str:
    """Return the beginning of what the first human message says, on one line."""
    first = next((m for m in messages[:_FIRST] if role_of(m) == "human"), None)
    text = "" if first is None else on_one_line(own_words(text_of(first)))
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
        session: The only session that is needed: no other thread of another checkpointer's
            database is read.

    Raises:
        ConfigurationError: When it is none of these.
        OSError: When a file cannot be read.
    """
    if is_database(source) and "tokenmem_sessions" in tables_of(source):
        with opened_store(source) as store:
            yield StoredSessions(store)
        return
    kind = kind_of(source)
    with opened_store("sqlite://") as store:
        found = StoredSessions(store)
        if kind == "checkpoints":
            ours = looking_saver(store)
            with langgraph_saver(address_of(source), ours.serde) as theirs:
                if theirs is not None:
                    migrate_checkpoints(theirs, ours, threads=session and [session])
        else:
            only = session if kind == "sql" else None
            for name, one in sessions_of(kind, source, session=only):
                one.imported_into(store, name)
                found.tools[name] = one.tools
        yield found


# --- what STORE, FROM and TO name


def address_of(given: str) -> Any:
    """Return the address of a database; a path is a SQLite file.

    Raises:
        ConfigurationError: When it is blank, as an unset variable of a shell is.
    """
    if not given.strip():
        raise ConfigurationError("The name of a database is empty; give its file or URL.")
    return parsed(given) if "://" in given else of_file(given)


def sqlite_file(given: str) -> Path | None:
    """Return the file of a SQLite database; None for any other one."""
    address = address_of(given)
    name = address.database if address.get_backend_name() == "sqlite" else None
    return None if not name or "uri" in address.query or name == ":memory:" else Path(name)


def check_file(given: str) -> None:
    """Raise if a SQLite file does not exist or is empty; opening it would create a store."""
    file = sqlite_file(given)
    if file is not None and not file.is_file():
        there = f"{file} is a folder" if file.is_dir() else f"There is no file {file}"
        raise ConfigurationError(f"{there}.")
    if file is not None and not file.stat().st_size:
        raise ConfigurationError(f"{file} is empty; it holds no store and no checkpoints.")


def tables_of(source: str) -> set[str]:
    """Return the names of the tables of a database, which is only read."""
    check_file(source)
    with history_engine(address_of(source)) as engine:
        return tables_in(engine)


def kind_of(source: str, table: str = MESSAGE_STORE) -> SourceKind:
    """Return what a source is; `table` is that of a database's chat histories."""
    if not is_database(source):
        return "messages"
    tables = tables_of(source)
    if table in tables:
        return "sql"
    if {"checkpoints", "tokenmem_checkpoints"} & tables:
        return "checkpoints"
    raise ConfigurationError(
        f"The database has neither a table {table!r} of histories (--table names another one) nor "
        f"checkpoints. There are: {', '.join(sorted(tables)) or 'none'}."
    )


def sessions_of(
    kind: SourceKind, source: str, table: str = MESSAGE_STORE, session: str | None = None
) -> Iterator[tuple[str, FileSession]]:
    """Yield the sessions of a file, or of a table of histories, each with the name that it gets.

    A session without a name in a file is named after the file; several are numbered.

    Args:
        kind: `messages` for a file, `sql` for a table.
        source: The file, or the database.
        table: The table.
        session: The only session that is read; in a file without names, what the first is called.

    Raises:
        ConfigurationError: When a file has named sessions, but not this one.
    """
    if kind == "sql":
        with history_engine(address_of(source)) as engine:
            for name, history in sql_histories(engine, table, session):
                yield name, FileSession(name, history)
        return
    file, nameless = Path(source), 0
    base = session or file.name.partition(".")[0] or file.name
    names: list[str] = []
    for one in sessions_in_file(file):
        if one.name is None:
            nameless += 1
            yield base if nameless == 1 else f"{base}-{nameless}", one
            continue
        names.append(one.name)
        if session in {None, one.name}:
            yield one.name, one
    if session is not None and names and session not in names:
        raise ConfigurationError(
            f"{source} has {many(len(names), 'named session')}, but none is {session!r}; without "
            f"--session all are read."
        )


def looking_saver(store: TranscriptStore) -> TokenMemorySaver:
    """Return a saver that reads states without the modules of their types."""
    return TokenMemorySaver(store, serde=LookingSerializer())


def opened_store(given: str, *, is_new: bool = False) -> TranscriptStore:
    """Open the store of a URL or a SQLite file.

    Args:
        given: The URL, or the path of the file.
        is_new: Whether to create the file if it does not exist.
    """
    if not is_new:
        check_file(given)
    return TranscriptStore(address_of(given), shared=True)


@contextmanager
def our_saver(
    given: str, *, allow: Sequence[str] = (), is_new: bool = False
) -> Iterator[TokenMemorySaver]:
    """Open a saver on a store, with further types that the state may hold."""
    types = _types(allow)
    with opened_store(given, is_new=is_new) as store:
        yield TokenMemorySaver(store, serde=StateSerializer(types))


def target_saver(
    url: str, tables: TargetTables, *, allow: Sequence[str]
) -> AbstractContextManager[Any]:
    """Open the saver to copy into; its file and its tables are created if they do not exist."""
    if tables == "tokenmem":
        return our_saver(url, allow=allow, is_new=True)
    return langgraph_saver(address_of(url), StateSerializer(_types(allow)), is_new=True)


@contextmanager
def source_saver(
    url: str, tables: SourceTables, *, serde: Any, allow: Sequence[str]
) -> Iterator[Any]:
    """Open the saver to copy from; if a database has both, LangGraph's own is used."""
    if tables != "tokenmem":
        check_file(url)
        # Values are read as strictly as the target reads them.
        with langgraph_saver(address_of(url), serde) as found:
            if found is not None:
                yield found
                return
        if tables == "langgraph":
            raise ConfigurationError(
                "There are no tables of a LangGraph checkpointer in the source."
            )
    with our_saver(url, allow=allow) as saver:
        yield saver


def _types(allow: Sequence[str]) -> list[tuple[str, str]]:
    """Return the module and the name of each type that is allowed.

    Each is imported here: of a type that cannot be, the serializer returns plain data, which would
    be stored in its place.
    """
    types = []
    for given in allow:
        module, _, name = given.partition(":")
        if not (module and name):
            raise ConfigurationError(
                f"--allow {given!r}: it is module:Class, such as my_app.state:Plan."
            )
        try:
            getattr(import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise ConfigurationError(
                f"--allow {given!r}: {error}. Run the command where it can be imported, for "
                f"example with PYTHONPATH=."
            ) from error
        types.append((module, name))
    return types

"""Rows of sessions: a conversation's owner, range of messages, state, settings and lease."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, exists, func, select, true, update
from sqlalchemy.dialects.postgresql import insert

from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.session_settings import SessionSettings
from langchain_tokenmem.core.thread_names import NAMESPACE_SEPARATOR, check_characters, thread_of
from langchain_tokenmem.errors import ScopeError
from langchain_tokenmem.state import MemoryState, load_state
from langchain_tokenmem.storage.database import lock_threads
from langchain_tokenmem.storage.message_json import from_json, to_json
from langchain_tokenmem.storage.tables import checkpoints, sessions, user_settings

MESSAGES, OF_SESSION, OF_USER = "messages", "session_documents", "user_documents"
"""Kinds: a conversation, and the documents of a session or of a user, whose id is the name."""


@dataclass
class Session:
    """The row of a conversation; see `tables.sessions`. `save` writes its changes.

    Attributes:
        id: Its number in every table.
        kind: `messages`, or whose documents these are.
        name: Its id in the application.
        thread_id: The thread whose sub-graph it is, else its own id; see `lock_name`.
        user_id: Its owner, if it has one.
        first_seq: Sequence number of its first message.
        last_seq: Number of its last message; `first_seq - 1` if there is none.
        edits: Grows whenever a message is edited.
        version: Grows with every change of the state, and with every `clear`.
        settings: The settings as JSON.
        state: The memory state as JSON.
        leased_by: Owner of the lease on summarizing it.
        leased_until: End of the lease, in seconds since 1970.
        active_at: Its last activity, in ISO 8601.
        is_pinned: Whether something is pinned in it.
        is_kept: Whether it never expires.
        words_from: The first message that the index of words lacks.
        vectors_from: The first one that the index of vectors lacks.
        unit_count: How many units of it are in the index of words.
        term_count: How many terms these have together.
    """

    id: int
    kind: str
    name: str
    thread_id: str
    user_id: str | None = None
    first_seq: int = 1
    last_seq: int = 0
    edits: int = 0
    version: int = 0
    settings: str | None = None
    state: str | None = None
    leased_by: str | None = None
    leased_until: float | None = None
    active_at: str | None = None
    is_pinned: int = 0
    is_kept: int = 0
    words_from: int = 1
    vectors_from: int = 1
    unit_count: int = 0
    term_count: int = 0

    def __post_init__(self) -> None:
        self.stored = vars(self).copy()

    @property
    def count(self) -> int:
        """Number of messages in the session."""
        return self.last_seq - self.first_seq + 1

    @property
    def state_version(self) -> int:
        """Version of the state, unique among all sessions that ever had this name."""
        return (self.id << 32) + self.version

    def note_activity(self, moment: datetime, *, unless_within: timedelta = timedelta()) -> None:
        """Record an activity that is later than the last one, by more than a given time."""
        if self.active_at is None or self.active_at < time_text(moment - unless_within):
            self.active_at = time_text(moment)


@dataclass(frozen=True)
class StoredState:
    """The memory of a session.

    Attributes:
        state: The state; None before the first decision.
        version: Version that a commit must name (compare-and-swap).
        budget: The session's own budget, if it has one.
        edits: Identifies the edits of its messages; empty if there are none.
    """

    state: MemoryState | None
    version: int
    budget: TokenBudget | None
    edits: str = ""


def checked_id(name: Any, what: str = "session_id") -> str:
    """Return an id that was checked.

    Raises:
        ScopeError: When it is blank or not a text (1 and "1" would be one session), too long, not
            valid Unicode, or has a control character other than the one that separates sub-graphs.
    """
    if not isinstance(name, str) or not name.strip():
        raise ScopeError(
            f"{what} is {name!r}; every conversation needs a string that names it, "
            f'such as "user-7/chat-1".'
        )
    for part in name.split(NAMESPACE_SEPARATOR):
        check_characters(part, what)
    return name


# Built once, because every put executes it.
_FIND = select(sessions).where(
    sessions.c.kind == bindparam("of_kind"), sessions.c.name == bindparam("named")
)
_HELD = select(func.pg_advisory_xact_lock(func.hashtextextended(bindparam("thread"), 0))).cte()
_FIND_HELD = _FIND.join(_HELD, true()).with_for_update(key_share=True, of=sessions)
"""Locks a thread and then reads a session's current row, on PostgreSQL."""

_OF_NAME = (
    select(sessions)
    .where(sessions.c.kind.in_((MESSAGES, OF_SESSION)), sessions.c.name == bindparam("named"))
    .order_by(sessions.c.id)
)
_SAVE = update(sessions).where(sessions.c.id == bindparam("number"))
_SETTINGS = select(user_settings.c.settings).where(user_settings.c.user_id == bindparam("user"))


def lock_name(kind: str, name: str) -> str:
    """Return the thread of a session; a user's documents have one that no conversation has."""
    return NAMESPACE_SEPARATOR + name if kind == OF_USER else thread_of(name)


def find(
    connection: Connection,
    name: str,
    user_id: str | None = None,
    *,
    kind: str = MESSAGES,
    lock: bool = False,
) -> Session | None:
    """Return a session, or None if it never existed.

    With `lock`, other writers to its thread wait until the transaction ends.

    Raises:
        ScopeError: When an id is invalid, or the session belongs to another user.
    """
    row, named = None, {"of_kind": kind, "named": checked_id(name)}
    if lock and connection.dialect.name == "postgresql":
        thread = lock_name(kind, name)
        row = connection.execute(_FIND_HELD, {**named, "thread": thread}).first()
        if row is None:  # without a row the thread may not be locked
            lock_threads(connection, [thread])
    row = row or connection.execute(_FIND, named).first()
    session = None if row is None else Session(*row)
    if user_id is not None:
        check_owner(session, user_id)
    return session


def sessions_of_name(connection: Connection, name: str) -> list[Session]:
    """Return a session and the session of its documents, if they exist.

    Raises:
        ScopeError: When the id is invalid.
    """
    rows = connection.execute(_OF_NAME, {"named": checked_id(name)})
    return [Session(*row) for row in rows]


def sessions_of_thread(connection: Connection, thread_id: str) -> list[Session]:
    """Return the session of a thread, those of its sub-graphs and of its documents."""
    own = select(sessions).where(sessions.c.thread_id == thread_id).order_by(sessions.c.id)
    return [Session(*row) for row in connection.execute(own)]


def check_owner(session: Session | None, user_id: str) -> None:
    """Check that a session has no owner, or belongs to the user.

    Raises:
        ScopeError: When it belongs to another user, or the user's id is invalid.
    """
    checked_id(user_id, "user_id")
    if session is not None and session.user_id not in {None, user_id}:
        raise ScopeError(
            f"Session {session.name!r} belongs to another user than {user_id!r}; use a session id "
            f"of this user's own."
        )


def find_by_id(connection: Connection, number: int) -> Session | None:
    """Return a session by its number in every table."""
    row = connection.execute(select(sessions).where(sessions.c.id == number)).first()
    return None if row is None else Session(*row)


def find_or_make(
    connection: Connection,
    name: str,
    user_id: str | None = None,
    *,
    kind: str = MESSAGES,
    lock: bool = False,
) -> Session:
    """Return a session, created if needed; the first user named for its thread owns it.

    Args:
        connection: In a write transaction.
        name: Its id.
        user_id: Its owner.
        kind: Of a conversation, or of documents.
        lock: Whether to lock its thread.

    Raises:
        ScopeError: When an id is invalid, or the session belongs to another user.
    """
    found = find(connection, name, user_id, kind=kind, lock=lock)
    if found is None:
        thread = lock_name(kind, name)
        own = select(sessions.c.user_id).where(sessions.c.thread_id == thread)
        owner = connection.execute(own.where(sessions.c.user_id.is_not(None)).limit(1)).scalar()
        row = {**Session(0, kind, name, thread, owner or user_id).stored}
        del row["id"]
        connection.execute(insert(sessions).on_conflict_do_nothing(), row)
        found = find(connection, name, user_id, kind=kind)
        assert found is not None  # noqa: S101  # it was inserted
    if user_id is not None and found.user_id is None:
        # Vectors are filtered by their owner: index them again.
        given = {"user_id": user_id, "vectors_from": sessions.c.first_seq}
        unowned = (sessions.c.thread_id == found.thread_id, sessions.c.user_id.is_(None))
        connection.execute(update(sessions).where(*unowned).values(given))
        found = find(connection, name, user_id, kind=kind) or found
    return found


@dataclass(frozen=True)
class UserRule:
    """Whether a call may leave out the user.

    Attributes:
        require_user: No call may.
        shared: Any call may, even for a session that has an owner.
    """

    require_user: bool = False
    shared: bool = True

    def find(
        self, connection: Connection, name: str, user_id: str | None = None, *, lock: bool = False
    ) -> Session | None:
        """Return a session that a call may see, or None if it never existed.

        Raises:
            ScopeError: When an id is invalid, the session belongs to another user, or a required
                user is missing.
        """
        found = find(connection, name, user_id, lock=lock)
        self.check(name, user_id, None if found is None else found.user_id)
        return found

    def check(self, name: str, user_id: str | None, owner: str | None) -> None:
        """Raise if a call leaves out a required user.

        Args:
            name: The session.
            user_id: The user that the call names.
            owner: The session's owner.

        Raises:
            ScopeError: When a required user is missing.
        """
        if user_id is None and self.require_user:
            raise ScopeError(
                f"Session {name!r}: no user is named, and this store has require_user=True; pass "
                f"user_id=."
            )
        if user_id is None and owner is not None and not self.shared:
            raise ScopeError(
                f"Session {name!r} belongs to a user: pass user_id=, or open the store with "
                f"TranscriptStore(..., shared=True) where no users are served."
            )


def save(connection: Connection, session: Session, **changes: Any) -> None:
    """Write the changes of a session, and further ones."""
    for name, value in changes.items():
        setattr(session, name, value)
    now = {name: value for name, value in vars(session).items() if name != "stored"}
    if changed := {name: now[name] for name in now if now[name] != session.stored[name]}:
        connection.execute(_SAVE, {"number": session.id, **changed})
        session.stored = now


def list_sessions(connection: Connection, user_id: str | None) -> list[str]:
    """Return the ids of all sessions, or of one user's, in alphabetical order."""
    query = select(sessions.c.name).where(sessions.c.kind == MESSAGES)
    if user_id is not None:
        query = query.where(sessions.c.user_id == checked_id(user_id, "user_id"))
    return sorted(connection.execute(query).scalars())


def page_of_sessions(
    connection: Connection,
    *,
    user_id: str | None = None,
    matching: str = "",
    limit: int = 20,
    offset: int = 0,
) -> list[Session]:
    """Return some of the sessions, the most recently active first.

    Args:
        connection: A connection that reads.
        user_id: Only this user's.
        matching: Only those whose id or owner contains this text, case-insensitive.
        limit: Maximum number of sessions.
        offset: How many to skip.
    """
    # Excluding the other kinds makes SQLite use the index on times, without sorting.
    wanted: list[ColumnElement[bool]] = [sessions.c.kind.not_in((OF_SESSION, OF_USER))]
    if user_id is not None:
        wanted.append(sessions.c.user_id == checked_id(user_id, "user_id"))
    if matching:
        found = sessions.c.name.icontains(matching, autoescape=True)
        wanted.append(found | sessions.c.user_id.icontains(matching, autoescape=True))
    order = (sessions.c.active_at.desc().nulls_last(), sessions.c.name)
    query = select(sessions).where(*wanted).order_by(*order).limit(limit).offset(offset)
    return [Session(*row) for row in connection.execute(query)]


def time_text(moment: datetime) -> str:
    """Return a time as text that sorts chronologically: ISO 8601, UTC."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def has_checkpoints(connection: Connection, session: Session) -> bool:
    """Return whether a session holds the messages of a checkpointed thread."""
    own = exists().where(checkpoints.c.session == session.id)
    return bool(connection.execute(select(own)).scalar())


# --- the memory's state


def state_of(session: Session) -> StoredState:
    """Return the memory of a session."""
    state = None if session.state is None else load_state(from_json(session.state))
    edits = str(session.edits or "")
    return StoredState(state, session.state_version, settings_of(session).budget, edits)


def save_state(connection: Connection, session: Session, state: MemoryState) -> None:
    """Store the memory of a session; a commit based on the previous version then fails."""
    save(
        connection,
        session,
        version=session.version + 1,
        state=to_json(state)[0],
        is_pinned=int(bool(state.get("pins"))),
    )


# --- settings


def settings_of(session: Session) -> SessionSettings:
    """Return a session's own settings."""
    return SessionSettings.loaded(None if session.settings is None else from_json(session.settings))


def settings_of_user(connection: Connection, user_id: str | None) -> SessionSettings:
    """Return the settings of a user; empty settings if no user is named."""
    if user_id is None:
        return SessionSettings()
    stored = connection.execute(_SETTINGS, {"user": checked_id(user_id, "user_id")}).scalar()
    return SessionSettings.loaded(None if stored is None else from_json(stored))


def save_settings_of_user(connection: Connection, user_id: str, settings: SessionSettings) -> None:
    """Replace the settings of a user."""
    connection.execute(user_settings.delete().where(user_settings.c.user_id == user_id))
    stored = settings.stored()
    if stored is not None:
        row = {"user_id": user_id, "settings": to_json(stored)[0]}
        connection.execute(insert(user_settings), row)

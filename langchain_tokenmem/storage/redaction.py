"""Removes words from a database for good, and deletes superseded wordings."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, and_, delete, or_, select, true, update

from langchain_tokenmem.core.messages import digest_of
from langchain_tokenmem.core.search_units import Change
from langchain_tokenmem.core.thread_names import namespace_label
from langchain_tokenmem.errors import CorruptStoreError, RedactionError, ScopeError
from langchain_tokenmem.storage.checkpoint_rows import KEEP_VALUE, Value, is_at, referenced
from langchain_tokenmem.storage.codec import Codec, RefusedTypeError
from langchain_tokenmem.storage.database import Database, change_with, lock_threads, rows_with
from langchain_tokenmem.storage.message_json import (
    checksum,
    decoded_message,
    from_json,
    message_digest,
    to_json,
)
from langchain_tokenmem.storage.redactor import Redactor
from langchain_tokenmem.storage.search_index import SearchIndex
from langchain_tokenmem.storage.sessions import (
    MESSAGES,
    Session,
    UserRule,
    checked_id,
    save,
    sessions_of_thread,
)
from langchain_tokenmem.storage.tables import (
    checkpoints,
    items,
    messages,
    sessions,
    user_settings,
    values,
    writes,
)

_ABOUT = "Redacting"
_NAMES = frozenset({"id", "ts", "v", "channel_versions", "versions_seen", "updated_channels"})
_METADATA_NAMES = frozenset(
    {"source", "step", "parents", "run_id", "thread_id", "checkpoint_ns", "user_id"}
    | {"assistant_id", "graph_id", "counters_since_delta_snapshot"}
)
"""Fields of a checkpoint, and of its metadata, that are LangGraph's own names."""


@dataclass(frozen=True)
class RemovalReceipt:
    """Outcome of a redaction or an erasing.

    Attributes:
        counts: Rows that contained the words, or were deleted, by place: `messages` (each wording),
            `documents`, `states`, `checkpoints`, `checkpoint_values`, `checkpoint_writes`, `notes`
            and others.
        sessions: Ids of the sessions in which something was found.
        unreached: Descriptions of what could not be reached; may be empty.
        is_dry_run: Whether nothing was changed.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    sessions: tuple[str, ...] = ()
    unreached: tuple[str, ...] = ()
    is_dry_run: bool = False


@dataclass(frozen=True)
class RedactionScope:
    """What is redacted: a thread with its sub-graphs, all of a user, or everything.

    Raises:
        ScopeError: When not exactly one of them is named; a session's owner may be named, too.
    """

    users: UserRule
    session_id: str | None = None
    user_id: str | None = None
    everywhere: bool = False

    def __post_init__(self) -> None:
        if self.everywhere == (self.session_id is not None or self.user_id is not None):
            raise ScopeError("Name session_id=, user_id=, or everywhere=True, and only one.")

    def threads(self, connection: Connection) -> list[str]:
        """Return the threads in scope.

        Raises:
            ScopeError: When the call may not see the session.
        """
        query = select(sessions.c.thread_id).distinct().order_by(sessions.c.thread_id)
        if self.session_id is not None:
            self.users.find(connection, self.session_id, self.user_id)
            query = query.where(sessions.c.name == self.session_id)
        elif self.user_id is not None:
            query = query.where(sessions.c.user_id == checked_id(self.user_id, "user_id"))
        return list(connection.execute(query).scalars())

    def notes(self, names: Collection[str]) -> Any:
        """Return the condition for the notes in scope; `names` are the ids of its sessions."""
        if self.everywhere:
            return true()
        labels = items.c.session.in_(list(map(namespace_label, names)))
        if self.session_id is not None or self.user_id is None:
            return labels
        return or_(items.c.owner == namespace_label(self.user_id), labels)


@dataclass
class Redaction:
    """Removes words from a database, thread by thread: each is one transaction.

    Attributes:
        database: The database.
        index: Its search index.
        codec: Reads and writes the values of checkpoints.
        scope: Where words are removed.
        redactor: Creates a new one for each thread.
        dry_run: Whether to roll back everything.
    """

    database: Database
    index: SearchIndex
    codec: Codec
    scope: RedactionScope
    redactor: Callable[[], Redactor]
    dry_run: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    unread: Counter[str] = field(default_factory=Counter)
    found: dict[str, int] = field(default_factory=dict)

    def run(self) -> RemovalReceipt:
        """Remove the words, and read everything back.

        Raises:
            RedactionError: When a later read still finds the words.
            ScopeError: When the session belongs to another user.
        """
        self._once()
        unreached = [f"{count:,} {what}" for what, count in self.unread.items()]
        if not self.dry_run:
            if left := self.database.rewrite():
                unreached.append(left)
            self.index.tell(Change("cleared", sorted(self.found.values())))
            proof = Redaction(
                *(self.database, self.index, self.codec, self.scope, self.redactor), dry_run=True
            )
            proof._once()
            if proof.counts:
                raise RedactionError(proof.counts)
        names = tuple(sorted(self.found))
        return RemovalReceipt(dict(self.counts), names, tuple(unreached), self.dry_run)

    def _once(self) -> None:
        self.index.make_ready()
        with self.database.reading(_ABOUT) as connection:
            threads = self.scope.threads(connection)
        for thread in threads:
            with self.database.writing(_ABOUT, thread, undo=self.dry_run) as connection:
                self._thread(connection, thread)
        with self.database.writing(_ABOUT, undo=self.dry_run) as connection:
            self._notes(connection, threads)

    def _thread(self, connection: Connection, thread: str) -> None:
        redactor = self.redactor()
        found = sessions_of_thread(connection, thread)
        changed = {one.id: self._messages(connection, one, redactor) for one in found}
        for one in found:
            self.unread["ids of sessions and users that hold the words"] += redactor.holds_id(
                one.name, one.user_id
            )
            self._derived(connection, one, redactor, changed[one.id])
        if redactor.gone:
            self._quotes(connection, found, redactor)
        self.unread["values that hold the words in a form that cannot be changed"] += (
            redactor.opaque
        )
        self.unread = +self.unread

    def _note(self, what: str, session: Session) -> None:
        self.counts[what] += 1
        self.found[session.name] = session.id

    # --- messages and documents

    def _messages(self, connection: Connection, session: Session, redactor: Redactor) -> set[int]:
        """Redact all wordings; return the numbers of those that were changed."""
        names = ("number", "seq", "message_id", "checksum", "message", "exact")
        columns = [messages.c[name] for name in names]
        own = messages.c.session == session.id
        changes: dict[int, dict[str, Any]] = {}
        seqs: set[int] = set()
        for row in connection.execute(select(*columns).where(own)):
            if row.message_id:
                redactor.places[row.message_id] = row.seq
                if redactor.holds_id(row.message_id):
                    self.unread["ids of messages that hold the words"] += 1
            if new := self._wording(row, session, redactor):
                changes[row.number] = new
                if row.seq is not None:
                    seqs.add(row.seq)
                redactor.gone.add(row.message_id or "")
                self._note("messages" if session.kind == MESSAGES else "documents", session)
        for number, new in changes.items():
            at = and_(own, messages.c.number == number)
            connection.execute(update(messages).where(at).values(**new))
        if changes:
            session.edits += len(changes)
            if seqs:
                self.index.edited(connection, session, sorted(seqs))
            save(connection, session)
        return set(changes)

    def _wording(self, row: Any, session: Session, redactor: Redactor) -> dict[str, Any]:
        """Return the changed columns of a wording."""
        before = redactor.found
        new: dict[str, Any] = {}
        try:
            if row.message is not None and checksum(row.message) != row.checksum:
                self.unread["messages that are damaged"] += 1
            elif row.message is not None:
                body = from_json(row.message)
                if session.kind == MESSAGES:
                    text = to_json({**body, "data": redactor.record(body["data"])})[0]
                else:
                    new_texts = {name: redactor.value(body[name]) for name in ("text", "metadata")}
                    text = to_json({**body, **new_texts})[0]
                if redactor.found > before:
                    new = {"message": text, "checksum": checksum(text)}
                    if session.kind == MESSAGES:
                        decoded = decoded_message(text)
                        new["digest"] = message_digest(decoded)
                        new["content_hash"] = digest_of(decoded)
            if row.exact is not None:
                whole = self.codec.unpack(row.exact)
                exact = redactor.value(whole)
                if exact is not whole:
                    new |= {"exact": self.codec.pack(exact), "digest": self.codec.digest(exact)}
        except CorruptStoreError:
            self.unread["messages that cannot be read"] += 1
        return new

    # --- states and checkpoints, which refer to messages

    def _derived(
        self, connection: Connection, session: Session, redactor: Redactor, changed: Collection[int]
    ) -> None:
        """Redact the state, the checkpoints and the pending writes of a session."""
        state = None if session.state is None else from_json(session.state)
        new = redactor.value(state)
        if new is not state:
            self._note("states", session)
            session.state = to_json(new)[0]
        if changed or new is not state:
            # A turn in progress loads again, and a history makes its view again.
            save(connection, session, version=session.version + 1, edits=session.edits + 1)
        own = values.c.session == session.id
        moved: dict[bytes, bytes] = {}
        for row in connection.execute(select(values).where(own)).all():
            value = self._unpacked(row.value)
            if (new := redactor.value(value)) is value:
                continue
            packed = self.codec.pack(new)
            digest = hashlib.blake2b(packed, digest_size=16).digest()
            moved[bytes(row.digest)] = digest
            self._note("checkpoint_values", session)
            connection.execute(delete(values).where(own, values.c.digest == row.digest))
            new_row = {"session": session.id, "digest": digest, "value": packed}
            connection.execute(KEEP_VALUE, new_row)
        self._checkpoints(connection, session, redactor, moved, {*changed})
        for row in connection.execute(select(writes).where(writes.c.session == session.id)).all():
            # task path, channel, references of messages, the rest
            *names, value = self._unpacked(row.value) or (None,)
            channel = names[1] if names else ""
            if (new := redactor.channel(channel, value)) is not value:
                self._note("checkpoint_writes", session)
                at = (writes.c.task_id == row.task_id, writes.c.idx == row.idx)
                mine = update(writes).where(*is_at(row, writes), *at)
                connection.execute(mine.values(value=self.codec.pack([*names, new])))

    def _checkpoints(
        self,
        connection: Connection,
        session: Session,
        redactor: Redactor,
        moved: Mapping[bytes, bytes],
        changed: set[int],
    ) -> None:
        own = select(checkpoints).where(checkpoints.c.session == session.id)
        for row in connection.execute(own).all():
            before, body = redactor.found, self._unpacked(row.body)
            if body is None:
                continue
            fields, metadata, entries = body
            fields = {k: v if k in _NAMES else redactor.value(v) for k, v in fields.items()}
            metadata = {
                k: v if k in _METADATA_NAMES else redactor.value(v) for k, v in metadata.items()
            }
            for name, (refs, shape, digest, list_hash) in entries.items():
                # The hash of all messages would let a reader confirm a guess of the words.
                kept = list_hash if changed.isdisjoint(Value(refs).numbers) else None
                new = redactor.channel(name, shape)
                entries[name] = [refs, new, moved.get(digest, digest), kept]
            if redactor.found > before:
                self._note("checkpoints", session)
            elif not moved and not changed:
                continue
            packed = self.codec.pack([fields, metadata, entries])
            connection.execute(update(checkpoints).where(*is_at(row)).values(body=packed))

    def _unpacked(self, packed: bytes) -> Any:
        """Return a value, or None if it cannot be read."""
        try:
            return self.codec.unpack(packed)
        except RefusedTypeError as error:
            named = " ".join(f"--allow {name}" for name in sorted(error.refused))
            why = f"of your own types: pass serde=saver.serde, or {named} to `tokenmem redact`"
        except CorruptStoreError:
            why = "that this serializer cannot read: pass serde=saver.serde"
        self.unread[f"values of checkpoints {why}"] += 1
        return None

    def _quotes(self, connection: Connection, own: Collection[Session], redactor: Redactor) -> None:
        """Drop blocks that quote the changed messages from the owner's other sessions."""
        owners = {one.user_id for one in own if one.user_id}
        if self.scope.session_id is None or not owners:
            return
        query = select(sessions).where(sessions.c.user_id.in_(owners))
        query = query.where(sessions.c.id.not_in([one.id for one in own]))
        others = [Session(*row) for row in connection.execute(query)]
        lock_threads(connection, [one.thread_id for one in others])
        quoting = self.redactor().only_quotes(redactor.gone)
        for one in others:
            self._derived(connection, one, quoting, ())

    # --- notes

    def _notes(self, connection: Connection, threads: Collection[str]) -> None:
        redactor = self.redactor()
        rows = rows_with(connection, select(sessions.c.name), sessions.c.thread_id, threads)
        own = self.scope.notes([row.name for row in rows])
        for row in connection.execute(select(items).where(own)).all():
            value = from_json(row.value)
            held = redactor.holds_name(value, row.key, row.namespace)
            self.unread["keys of notes that hold the words"] += held
            new = redactor.item(value)
            if new is not value:
                self.counts["notes"] += 1
                at = (items.c.namespace == row.namespace, items.c.key == row.key)
                connection.execute(update(items).where(*at).values(value=to_json(new)[0]))
        if self.scope.everywhere:
            settings = connection.execute(select(user_settings.c.settings)).scalars()
            count = sum(map(redactor.holds, settings))
            self.unread["settings of users that hold the words"] += count
        self.unread = +self.unread


def purge_superseded(database: Database, codec: Codec, scope: RedactionScope) -> RemovalReceipt:
    """Delete superseded wordings; one that a checkpoint has is kept and counted as unreached.

    Raises:
        ScopeError: When the session belongs to another user.
    """
    purged: Counter[str] = Counter()
    held = 0
    with database.reading("Deleting old wordings") as connection:
        threads = scope.threads(connection)
    for thread in threads:
        with database.writing("Deleting old wordings", thread) as connection:
            for session in sessions_of_thread(connection, thread):
                old = _superseded(connection, session)
                kept = old & referenced(connection, codec, session.id)[0] if old else set()
                held += len(kept)
                if unused := old - kept:
                    whole = delete(messages).where(messages.c.session == session.id)
                    count = change_with(connection, whole, messages.c.number, unused)
                    purged[session.name] += count
    unreached = [f"{held:,} wordings that older checkpoints have: prune the thread"] if held else []
    if left := database.rewrite():
        unreached.append(left)
    counts = {"messages": purged.total()} if purged else {}
    return RemovalReceipt(counts, tuple(sorted(purged)), tuple(unreached))


def _superseded(connection: Connection, session: Session) -> set[int]:
    """Return the numbers of superseded wordings."""
    own = (messages.c.session == session.id, messages.c.seq.is_not(None))
    shown = select(messages.c.seq).where(*own, messages.c.is_shown == 1)
    query = select(messages.c.number).where(*own, messages.c.is_shown == 0)
    return set(connection.execute(query.where(messages.c.seq.in_(shown))).scalars())

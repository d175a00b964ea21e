"""Copies the transcripts of a thread from one store of this package to another."""

from __future__ import annotations

from collections.abc import Iterable

from langchain_tokenmem.adapters.checkpoints.thread_methods import ThreadSaver
from langchain_tokenmem.core.search_units import Change
from langchain_tokenmem.core.thread_names import thread_session
from langchain_tokenmem.storage.checkpoints.threads import append_rows
from langchain_tokenmem.storage.transcripts.edits import copy_edits, read_edits
from langchain_tokenmem.storage.transcripts.message_rows import read_from, read_named
from langchain_tokenmem.storage.transcripts.sessions import find, find_or_make


def copy_transcripts(
    source: ThreadSaver, target: ThreadSaver, thread: str, namespaces: Iterable[str]
) -> None:
    """Append what the target's transcripts of a thread lack, with ids, times and owner.

    A transcript has more than the checkpoints that are left. A target that encrypts gets the owner
    only: nothing of it stands in clear.

    Raises:
        ScopeError: When a session belongs to another user there.
        CorruptStoreError: When a transcript of the source is damaged.
    """
    # What the savers themselves read and write with.
    reads, writes = source._checkpoints, target._checkpoints  # noqa: SLF001
    for session_id in sorted({thread_session(thread, ns) for ns in ("", *namespaces)}):
        about = f"Session {session_id!r}"
        with reads.database.reading(about) as connection:
            session = find(connection, session_id, None)
            if session is None:
                continue
            is_plain = writes.codec.is_plain
            rows = read_from(connection, session, session.first_seq) if is_plain else []
            edits = read_edits(connection, session)
        writes.index.make_ready()
        with writes.database.writing(about) as connection:
            copy = find_or_make(connection, session_id, session.user_id)
            copy = append_rows(connection, writes.index, copy, rows)
            names = {row.seq: row.message.id or "" for row in rows if row.seq in edits}
            copied = {
                row.message.id: row for row in read_named(connection, copy, [*names.values()])
            }
            given = {copied[name].seq: edits[seq] for seq, name in names.items()}
            change = copy_edits(connection, writes.index, copy, [*copied.values()], given)
        writes.index.tell(change or Change("added"))

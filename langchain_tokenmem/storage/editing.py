"""Messages edited or hidden; for a thread, in the heads of its checkpoints, too."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import Connection, func, select, tuple_, update

from langchain_tokenmem.errors import StoreError
from langchain_tokenmem.storage.checkpoint_rows import from_ranges, is_at, to_ranges
from langchain_tokenmem.storage.codec import Codec
from langchain_tokenmem.storage.message_json import EncodedMessage, message_digest
from langchain_tokenmem.storage.sessions import Session, has_checkpoints
from langchain_tokenmem.storage.tables import checkpoints, messages
from langchain_tokenmem.storage.transcripts import append, hide, read_named, show


def edit(
    connection: Connection, session: Session, one: EncodedMessage, codec: Codec, now: datetime
) -> list[int]:
    """Show a message in other words, and give them to the heads of its thread.

    Returns:
        The numbers of the messages whose words changed; the caller saves the session.

    Raises:
        StoreError: When the session has no such message.
    """
    named = messages.c.message_id == one.stored.id
    own = (messages.c.session == session.id, named, messages.c.seq.is_not(None))
    wordings = read_named(connection, session, [one.stored.id or ""])
    if not wordings:
        raise StoreError(
            f"Session {session.name!r} has no message {one.stored.id!r}, and nothing was edited."
        )
    same = messages.c.digest == message_digest(one.stored)
    known = connection.execute(select(messages.c.number).where(*own, same)).scalars().first()
    if known is None:
        _, seqs = append(connection, session, [one], now)
    else:  # words that it had before
        show(connection, session, [known])
        session.edits += 1
        seqs = [wordings[0].seq]
    number = connection.execute(
        select(messages.c.number).where(*own, messages.c.is_shown == 1)
    ).scalar_one()
    _give_to_heads(connection, session, {row.number for row in wordings}, number, codec)
    return seqs


def take_out(connection: Connection, session: Session, ids: Collection[str]) -> list[int]:
    """Hide messages, and return their numbers; the caller saves the session.

    Raises:
        StoreError: When it is a thread with checkpoints, whose graph removes messages itself.
    """
    if has_checkpoints(connection, session):
        raise StoreError(
            f"Session {session.name!r} holds the messages of a thread with checkpoints. Nothing "
            f"was removed; put a RemoveMessage into the graph's state."
        )
    seqs = sorted({row.seq for row in read_named(connection, session, ids) if row.is_shown})
    hide(connection, session, seqs)
    session.edits += len(seqs)
    return seqs


def _give_to_heads(
    connection: Connection, session: Session, old: set[int], number: int, codec: Codec
) -> None:
    """Let the newest checkpoint of each namespace have another wording in place of old ones."""
    here = checkpoints.c
    place = (here.thread_id, here.ns)
    newest = select(*place, func.max(here.checkpoint_id)).group_by(*place)
    heads = tuple_(*place, here.checkpoint_id).in_(newest.where(here.session == session.id))
    for row in connection.execute(select(checkpoints).where(heads)).all():
        fields, metadata, entries = codec.unpack(row.body)
        for name, (refs, shape, digest, _said) in entries.items():
            numbers = from_ranges(refs)
            if not old.isdisjoint(numbers):
                new = to_ranges(number if n in old else n for n in numbers)
                entries[name] = [new, shape, digest, None]
        body = codec.pack([fields, metadata, entries])
        connection.execute(update(checkpoints).where(*is_at(row)).values(body=body))

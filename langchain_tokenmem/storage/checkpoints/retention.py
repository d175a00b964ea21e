"""Retention: old checkpoints of a thread go, with everything that only they needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Column, Connection, Table, delete, select

from langchain_tokenmem.core.thread_names import check_thread_id
from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.checkpoints import rows
from langchain_tokenmem.storage.checkpoints.codec import Codec
from langchain_tokenmem.storage.checkpoints.contents import as_numbers, chunks_in
from langchain_tokenmem.storage.checkpoints.records import Address, about, every_checkpoint
from langchain_tokenmem.storage.checkpoints.rows import Stored
from langchain_tokenmem.storage.checkpoints.spaces import (
    Space,
    hold_threads,
    spaces_at,
    spaces_of,
)
from langchain_tokenmem.storage.checkpoints.store import Checkpoints
from langchain_tokenmem.storage.checkpoints.tables import (
    blobs,
    checkpoints,
    contents,
    spaces,
    writes,
)
from langchain_tokenmem.storage.checkpoints.threads import recount
from langchain_tokenmem.storage.transcripts.encoded_message import key_of

_STRAY = timedelta(hours=1)
"""Age from which pending writes without a checkpoint belong to a run that was refused or died."""

_AT_ONCE = 500


@dataclass(frozen=True)
class Rule:
    """Which checkpoints stay.

    Attributes:
        keep_last: How many of the newest in each namespace; None for all of them.
        since: The oldest time; None for any. The head stays, however old it is.
    """

    keep_last: int | None
    since: datetime | None


def prune(store: Checkpoints, thread_id: str, rule: Rule, *, now: datetime) -> int:
    """Delete the checkpoints of a thread that a rule does not keep; return how many.

    What a kept checkpoint builds upon (the ancestors of a delta channel back to its snapshot)
    stays, too. The transcript is never touched.

    Args:
        store: Where they are.
        thread_id: The thread.
        rule: Which ones stay.
        now: The current time.

    Raises:
        CorruptStoreError: When a checkpoint of the thread is damaged, or anything of those that
            stay is missing; nothing was deleted.
    """
    address = Address(check_thread_id(thread_id), "")
    with store.database.writing(str(address)) as connection, about(address):
        found = spaces_of(connection, store.codec, thread_id)
        there = {
            space.space_id: every_checkpoint(connection, store.codec, space) for space in found
        }
        kept = _kept(found, there, rule)
        removed, is_less = 0, False
        for space in found:
            gone = [one for one in there[space.space_id] if one.id not in kept[space.space_id]]
            removed += len(gone)
            is_less |= _sweep(connection, store.codec, space, gone, now)
        if is_less:
            for group_id in sorted({space.group_id for space in found}):
                _sweep_messages(connection, store.codec, found, group_id)
    if is_less:
        store.database.forget_deleted()
    return removed


def delete_for_runs(store: Checkpoints, run_ids: Sequence[str], *, now: datetime) -> None:
    """Delete the checkpoints of runs, and everything that only they needed, in every thread.

    Raises:
        CorruptStoreError: When a thread they are in lost a checkpoint; nothing was deleted.
    """
    keys = [key for run_id in run_ids if (key := rows.run_key(run_id))]
    if not keys:
        return
    with store.database.writing("The checkpoints of runs") as connection:
        query = select(checkpoints.c.space_id).where(checkpoints.c.run_key.in_(keys)).distinct()
        numbers = connection.execute(query).scalars().all()
        owners = select(spaces.c.thread_key).where(spaces.c.space_id.in_(numbers)).distinct()
        hold_threads(connection, connection.execute(owners).scalars().all())
        touched = spaces_at(connection, store.codec, numbers)
        for thread_id in sorted({space.thread_id for space in touched}):
            with about(Address(thread_id, "")):
                found = spaces_of(connection, store.codec, thread_id)
                for space in found:
                    there = every_checkpoint(connection, store.codec, space)
                    gone = [
                        one for one in there if rows.run_key(one.metadata.get("run_id")) in keys
                    ]
                    _sweep(connection, store.codec, space, gone, now)
                for group_id in sorted({space.group_id for space in found}):
                    _sweep_messages(connection, store.codec, found, group_id)
    if touched:
        store.database.forget_deleted()


def _kept(
    found: Sequence[Space], there: Mapping[int, Sequence[Stored]], rule: Rule
) -> dict[int, set[str]]:
    """Return the ids that stay, by namespace; the graph's own first, its sub-graphs' after it."""
    kept: dict[int, set[str]] = {}
    roots: set[str] = set()
    newest = ""
    for space in sorted(found, key=lambda space: bool(space.ns)):
        stored = there[space.space_id]
        stays = _by_rule(space, stored, rule)
        if ":" in space.ns:
            # One run of a sub-graph. A namespace without ids of tasks is a sub-graph's own memory
            # for the whole thread, however long ago it ran.
            stays = {one.id for one in stored if one.id in stays and _has_root(one, roots, newest)}
        elif not space.ns:
            newest = stored[-1].id if stored else ""
        stays |= _ancestors(stored, stays)
        if not space.ns:
            roots = stays
        kept[space.space_id] = stays
    return kept


def _by_rule(space: Space, stored: Sequence[Stored], rule: Rule) -> set[str]:
    if rule.keep_last == 0:
        return set()
    young = stored if rule.keep_last is None else stored[-rule.keep_last :]
    stays = {one.id for one in young if rule.since is None or _since(one, rule.since)}
    return stays | ({space.head} if space.head is not None else set())


def _since(stored: Stored, moment: datetime) -> bool:
    try:
        told = datetime.fromisoformat(str(stored.fields.get("ts")))
    except ValueError:
        return True
    return (told if told.tzinfo else told.replace(tzinfo=moment.tzinfo)) >= moment


def _has_root(stored: Stored, roots: Collection[str], newest: str) -> bool:
    """Return whether the checkpoint of the graph under which a sub-graph ran is kept.

    It may be on its way, and then it is newer than all that are there.
    """
    root = (stored.metadata.get("parents") or {}).get("")
    return root is None or root in roots or root > newest


def _ancestors(stored: Sequence[Stored], kept: Iterable[str]) -> set[str]:
    """Return the ids that delta channels of kept checkpoints are rebuilt from.

    A delta channel is one that LangGraph counts the steps of since its last snapshot. It has no
    value of its own until that snapshot, however far back.
    """
    by_id = {one.id: one for one in stored}
    delta = {
        name for one in stored for name in one.metadata.get("counters_since_delta_snapshot") or {}
    }
    needed: set[str] = set()
    waiting = [*kept]
    while waiting:
        one: Stored | None = by_id[waiting.pop()]
        open_ = delta & (one.fields.get("channel_versions") or {}).keys() if one else set()
        while one is not None and (open_ := open_ - one.inline.keys() - one.large.keys()):
            one = by_id.get(one.parent) if one.parent else None
            if one is not None and one.id not in needed:
                needed.add(one.id)
                # What stays can be read, and so it needs all of its own channels.
                waiting.append(one.id)
    return needed


def _sweep(
    connection: Connection, codec: Codec, space: Space, gone: Sequence[Stored], now: datetime
) -> bool:
    """Delete checkpoints of a namespace, stray writes, and the values that nobody has any more.

    Returns:
        Whether there was any of it.
    """
    mine = select(checkpoints.c.checkpoint_key).where(checkpoints.c.space_id == space.space_id)
    strays = connection.execute(
        delete(writes).where(
            writes.c.space_id == space.space_id,
            writes.c.written < round((now - _STRAY).timestamp()),
            writes.c.checkpoint_key.not_in(mine),
        )
    ).rowcount
    if not gone:
        return strays > 0
    rows.delete_checkpoints(connection, space.space_id, [key_of(one.id) for one in gone])
    left = recount(connection, codec, space)
    used = {number for one in left for number in one.large.values()}
    _delete_unused(connection, blobs, blobs.c.space_id, space.space_id, used)
    if space.ns and not left:
        has_writes = select(writes.c.idx).where(writes.c.space_id == space.space_id).limit(1)
        if connection.execute(has_writes).first() is None:
            connection.execute(delete(spaces).where(spaces.c.space_id == space.space_id))
    return True


def _sweep_messages(
    connection: Connection, codec: Codec, found: Sequence[Space], group_id: int
) -> None:
    """Delete the messages outside of the transcript that nothing refers to any more."""
    used: set[int] = set()
    for space in found:
        if space.group_id != group_id:
            continue
        kept = rows.all_checkpoints(connection, codec, space.space_id)
        texts = [text for one in kept for text in one.references()]
        texts += _large(connection, space, kept) + _written(connection, space, kept)
        for text in set(texts):
            used.update(chunks_in(text))
            used.update(-n for n in as_numbers(connection, codec, group_id, text) if n < 0)
    _delete_unused(connection, contents, contents.c.group_id, group_id, used)


def _large(connection: Connection, space: Space, kept: Sequence[Stored]) -> list[str]:
    """Return the references of the large values of a namespace; all of them must be there."""
    query = select(blobs.c.number, blobs.c.refs).where(blobs.c.space_id == space.space_id)
    found = {row.number: row.refs for row in connection.execute(query)}
    if not found.keys() >= {number for one in kept for number in one.large.values()}:
        raise CorruptStoreError("the value of a channel is missing")
    return [*found.values()]


def _written(connection: Connection, space: Space, kept: Sequence[Stored]) -> list[str]:
    """Return the references of the pending writes of a namespace; all of them must be there."""
    query = select(writes.c.checkpoint_key, writes.c.refs)
    found = connection.execute(query.where(writes.c.space_id == space.space_id)).all()
    counts = Counter(row.checkpoint_key for row in found)
    if any(counts[key_of(one.id)] != one.writes for one in kept):
        raise CorruptStoreError("a pending write is missing")
    return [row.refs for row in found]


def _delete_unused(
    connection: Connection, table: Table, owner: Column[int], number: int, used: Collection[int]
) -> None:
    there = connection.execute(select(table.c.number).where(owner == number)).scalars()
    unused = [one for one in there if one not in used]
    for start in range(0, len(unused), _AT_ONCE):
        some = unused[start : start + _AT_ONCE]
        connection.execute(delete(table).where(owner == number, table.c.number.in_(some)))

"""Copies threads between LangGraph checkpointers, ours or others, and reads them back to check."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count, groupby
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    CheckpointTuple,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from langchain_tokenmem.adapters.checkpoints.saver import TokenMemorySaver
from langchain_tokenmem.core.thread_names import check_thread_id, thread_of, thread_session
from langchain_tokenmem.errors import (
    ConfigurationError,
    ScopeError,
    StoreError,
    TokenMemoryError,
)
from langchain_tokenmem.storage.checkpoint_rows import NamedId
from langchain_tokenmem.storage.codec import refused_types
from langchain_tokenmem.storage.import_sources import history_engine, tables_in
from langchain_tokenmem.storage.session_files import export_lines

Progress = Callable[[str, int, int], None]
"""Called with a thread's id, how many of its checkpoints are done, and how many there are."""


@dataclass(frozen=True)
class MigrationReport:
    """Result of a migration.

    Attributes:
        threads: Threads that are in the target now.
        copied: Checkpoints that were written.
        known: Checkpoints that the target already had, unchanged.
        writes: Pending writes of the copied checkpoints.
        skipped: Ids of threads that were left out, because they cannot be threads in the target.
        chats: Sessions of a `TokenMemorySaver`'s store without checkpoints; they are not copied.
    """

    threads: int
    copied: int
    known: int
    writes: int
    skipped: tuple[str, ...] = ()
    chats: int = 0


def migrate_checkpoints(
    source: BaseCheckpointSaver[Any],
    target: BaseCheckpointSaver[Any],
    *,
    threads: Iterable[str] | None = None,
    progress: Progress | None = None,
) -> MigrationReport:
    """Copy threads with every checkpoint, its parent, its metadata and its pending writes.

    Each checkpoint is read back from the target and compared with the source before the next one
    is written. From one `TokenMemorySaver` to another whole transcripts are copied, too. An
    interrupted migration resumes where it stopped when it is run again; no one should write to the
    threads meanwhile. The source is only read.

    Versions of channels that are numbers, such as those of a `TokenMemorySaver`, become texts in a
    target that uses texts, as LangGraph's own checkpointers do.

    Args:
        source: Any LangGraph checkpointer.
        target: The checkpointer that gets the copies: a `TokenMemorySaver`, or on the way back any
            other one with sync methods.
        threads: Which threads; default: all of them.
        progress: Called after each checkpoint.

    Returns:
        How much was copied.

    Raises:
        ConfigurationError: When the source has no checkpoint of a named thread, or contains a type
            that its serializer is not allowed to load.
        ScopeError: When a named thread cannot be one in the target, or belongs to another user
            there.
        StoreError: When the source cannot be read or the target cannot be written, or when the
            target has something else under the name of a checkpoint, or does not return what was
            written to it.

    Example:
        >>> from langgraph.checkpoint.memory import InMemorySaver
        >>> from langchain_tokenmem import TokenMemorySaver, TranscriptStore
        >>> migrate_checkpoints(InMemorySaver(), TokenMemorySaver(TranscriptStore("sqlite://")))
        MigrationReport(threads=0, copied=0, known=0, writes=0, skipped=(), chats=0)
    """
    wanted, skipped = _threads_of(source) if threads is None else ([*threads], [])
    total = Counter(threads=0, copied=0, known=0, writes=0)
    for thread in wanted:
        check_thread_id(thread)
        done = _copy_thread(source, target, thread, progress)
        if not done and threads is not None:
            raise ConfigurationError(
                f"Thread {thread!r} has no checkpoints in the source; check the spelling of its id."
            )
        total.update(done)
    chats = 0
    if threads is None and isinstance(source, TokenMemorySaver):
        copied = {*wanted, *skipped}
        chats = sum(thread_of(name) not in copied for name in source.store.sessions())
    return MigrationReport(**total, skipped=tuple(skipped), chats=chats)


def _threads_of(source: BaseCheckpointSaver[Any]) -> tuple[list[str], list[str]]:
    """Return the threads of the source, and those that cannot be threads of the target."""
    with _reading("The list of threads"):
        found = {one.config["configurable"]["thread_id"] for one in source.list(None)}
    usable, skipped = [], []
    for thread in sorted(found, key=str):
        try:
            check_thread_id(thread)
        except ScopeError:
            skipped.append(str(thread))
        else:
            usable.append(thread)
    return usable, skipped


def _copy_thread(
    source: BaseCheckpointSaver[Any],
    target: BaseCheckpointSaver[Any],
    thread: str,
    progress: Progress | None,
) -> Counter[str]:
    """Copy a thread, oldest checkpoint first, and return the counts; empty for no thread."""
    with _reading(f"Thread {thread!r}: its checkpoints"):
        found = source.list({"configurable": {"thread_id": thread}})
        keys = sorted((_address(one) for one in found), key=lambda key: key[::-1])
    if not keys:
        return Counter()
    if isinstance(source, TokenMemorySaver) and isinstance(target, TokenMemorySaver):
        _copy_transcripts(source, target, thread, {ns for ns, _ in keys})
    versions = _TextVersions() if isinstance(target.get_next_version(None, None), str) else None
    done = Counter(threads=1, copied=0, known=0, writes=0)
    for number, (ns, name) in enumerate(keys, start=1):
        where = f"Thread {thread!r}, checkpoint {name}"
        config = _config(thread, ns, name)
        with _reading(where):
            one = source.get_tuple(config)
        if one is None:
            raise StoreError(f"{where}: it was deleted meanwhile. Run the migration again.")
        one = versions.of(one) if versions else one
        if _is_copied(one, target.get_tuple(config), target.serde, where):
            done["known"] += 1
        else:
            with _writing(where):
                _put(target, one, thread, ns)
            if not _is_copied(one, target.get_tuple(config), target.serde, where):
                raise StoreError(f"{where}: the target lost what it was given; please report it.")
            done.update(copied=1, writes=len(one.pending_writes or ()))
        if progress is not None:
            progress(thread, number, len(keys))
    return done


def _copy_transcripts(
    source: TokenMemorySaver, target: TokenMemorySaver, thread: str, namespaces: Iterable[str]
) -> None:
    """Copy what transcripts still have and checkpoints no longer do, with ids, times and owner.

    A target that encrypts gets none: it stores nothing in clear text.
    """
    if not target.is_plain:
        return
    for name in sorted({thread_session(thread, ns) for ns in ("", *namespaces)}):
        try:
            # For any owner: the owner is copied, too.
            lines = list(export_lines(source.store.database, name, None))
        except ScopeError:  # the source has no such session
            continue
        owner = json.loads(str(lines[0]))["user_id"]
        if not target.store.count(name, user_id=owner):
            target.store.import_session(lines, user_id=owner)


class _TextVersions:
    """Versions of channels as LangGraph's own checkpointers make them: texts that sort by number.

    They cannot continue from numbers, and they keep one value for each version of a channel.
    `TokenMemorySaver` counts, so the branches of a fork have the same versions for different
    values. Here a version is named after the checkpoint that introduced it.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str | None], dict[str, tuple[Any, Any]]] = {}

    def of(self, found: CheckpointTuple) -> CheckpointTuple:
        """Return a checkpoint with its new versions. Its parent must come before it."""
        ns, name = _address(found)
        old = found.checkpoint["channel_versions"]
        inherited = self._known.get((ns, _parent(found)), {})
        pairs: dict[str, tuple[Any, Any]] = {
            channel: inherited[channel]
            if channel in inherited and inherited[channel][0] == version
            else (version, _text_version(version, name))
            for channel, version in old.items()
        }
        self._known[ns, name] = pairs
        new: ChannelVersions = {channel: text for channel, (_, text) in pairs.items()}
        seen: dict[str, ChannelVersions] = {
            node: {
                # An older one is only compared with newer ones: its number is enough.
                channel: new[channel] if old.get(channel) == number else _text_version(number)
                for channel, number in numbers.items()
            }
            for node, numbers in found.checkpoint["versions_seen"].items()
        }
        checkpoint = found.checkpoint.copy()
        checkpoint["channel_versions"], checkpoint["versions_seen"] = new, seen
        return found._replace(checkpoint=checkpoint)


def _text_version(version: Any, name: str = "") -> Any:
    """Return the text for a number, or for the text that our saver makes of it."""
    number, _, own = str(version).partition(".")
    is_unique = isinstance(version, str) and own.strip("0.")
    return version if is_unique else f"{int(number):032}.{name}"


def _put(target: BaseCheckpointSaver[Any], found: CheckpointTuple, thread: str, ns: str) -> None:
    """Put a checkpoint with its pending writes, in the order in which the source gives them."""
    # A given name, not one found at the head, says that a branch there is intended.
    parent = _parent(found)
    config = _config(thread, ns, NamedId(parent) if parent else None)
    if isinstance(owner := found.metadata.get("user_id"), str):
        config["configurable"]["user_id"] = owner
    values, versions = found.checkpoint["channel_values"], found.checkpoint["channel_versions"]
    # Some savers store the values of new versions only; here all of them are new.
    new = {channel: version for channel, version in versions.items() if channel in values}
    stored = target.put(config, found.checkpoint, found.metadata, new)
    tasks = groupby(found.pending_writes or (), key=lambda write: write[0])
    for number, (task, group) in enumerate(tasks):
        pairs = [(channel, value) for _, channel, value in group]
        # Separately, so that results keep their numbers: a task that runs again skips those it has.
        special = [pair for pair in pairs if pair[0] in WRITES_IDX_MAP]
        results = [pair for pair in pairs if pair[0] not in WRITES_IDX_MAP]
        for batch in filter(None, (special, results)):
            target.put_writes(stored, batch, task, f"{number:06}")


def _is_copied(
    found: CheckpointTuple, copy: CheckpointTuple | None, serde: SerializerProtocol, where: str
) -> bool:
    """Return whether the target has a checkpoint with all of its pending writes, or more of them.

    Raises:
        StoreError: When it has another one under this name, or has continued from it.
    """
    if copy is None:
        return False
    parts, others = _parts(found), _parts(copy)
    if different := _lacking(parts, others, serde) or _lacking(others, parts, serde):
        raise StoreError(
            f"{where}: the target has another one under this name ({different[0]} differ). Migrate "
            f"into an empty store, or delete the thread there."
        )
    writes, others = _writes(found), _writes(copy)
    missing = {key[:2] for key in _lacking(writes, others, serde)}
    # Errors, interrupts and resumes of the source replace others.
    replaced = {key for key in missing if key[1] in WRITES_IDX_MAP}
    if missing and not replaced.issuperset(key[:2] for key in _lacking(others, writes, serde)):
        raise StoreError(
            f"{where}: the target has continued from it. Delete the thread there, or leave it out: "
            f"name the others with threads=[...] or --thread."
        )
    return not missing


def _parts(found: CheckpointTuple) -> dict[Any, Any]:
    """Return the parts of a checkpoint except writes; an empty field counts as missing."""
    fields = {f"its {name}": value for name, value in found.checkpoint.items() if value}
    fields.pop("its channel_values", None)
    values = found.checkpoint["channel_values"]
    return {
        "its parent": _parent(found),
        "its metadata": dict(found.metadata),
        **fields,
        **{f"the values of channel {name!r}": value for name, value in values.items()},
    }


def _writes(found: CheckpointTuple) -> dict[Any, Any]:
    """Return pending writes by task, channel, and their number among those of both."""
    numbers: dict[tuple[str, str], Iterator[int]] = defaultdict(count)
    return {
        (task, channel, next(numbers[task, channel])): value
        for task, channel, value in found.pending_writes or ()
    }


def _lacking(
    wanted: Mapping[Any, Any], held: Mapping[Any, Any], serde: SerializerProtocol
) -> list[Any]:
    """Return the keys of values that are missing or different."""
    return [
        key
        for key, value in wanted.items()
        if key not in held or not _same(value, held[key], serde)
    ]


def _same(left: Any, right: Any, serde: SerializerProtocol) -> bool:
    """Compare by bytes first: values such as arrays have no plain `==`, but sets have no order."""
    if serde.dumps_typed(left) == serde.dumps_typed(right):
        return True
    try:
        return bool(left == right)
    except (TypeError, ValueError):
        return False


def _parent(found: CheckpointTuple) -> str | None:
    names: Mapping[str, Any] = (found.parent_config or {}).get("configurable", {})
    name = names.get("checkpoint_id")
    return None if name is None else str(name)


def _address(found: CheckpointTuple) -> tuple[str, str]:
    names = found.config["configurable"]
    return names.get("checkpoint_ns", ""), str(names["checkpoint_id"])


def _config(thread: str, ns: str, name: str | None) -> RunnableConfig:
    named = {} if name is None else {"checkpoint_id": name}
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, **named}}


# --- reading the source


@contextmanager
def _reading(where: str) -> Iterator[None]:
    """Raise errors that name the place where the source cannot be read.

    LangGraph's serializer returns plain data for a type that is not allowed. Savers may read in
    another thread, so whatever it refuses in any thread meanwhile counts.

    Raises:
        ConfigurationError: When the source contains a type that is not allowed.
        StoreError: When reading fails.
    """
    failure: Exception | None = None
    with refused_types(in_any_thread=True) as refused:
        try:
            yield
        except Exception as error:  # noqa: BLE001  # another package's saver may raise anything
            failure = error
    if refused:
        names = sorted(refused)
        raise ConfigurationError(
            f"{where}: the source holds {', '.join(names)}, which is not allowed to be loaded. If "
            f"you trust it: allowed_types of TokenMemorySaver and of the source's serializer, or "
            f"{' '.join(f'--allow {name}' for name in names)}."
        ) from failure
    if isinstance(failure, TokenMemoryError):
        raise failure
    if failure is not None:
        raise StoreError(
            f"{where}: the source cannot read it ({failure!r:.200}). Name the threads that can be "
            f"read with threads=[...] or --thread, or pass migrate_checkpoints a saver that reads "
            f"it."
        ) from failure


# --- LangGraph's savers


@contextmanager
def _writing(where: str) -> Iterator[None]:
    """Raise errors that name the place where the target cannot be written.

    Raises:
        StoreError: When writing fails.
    """
    try:
        yield
    except TokenMemoryError:
        raise
    except Exception as error:  # another package's saver may raise anything
        raise StoreError(f"{where}: the target cannot store it ({error!r:.200}).") from error


@contextmanager
def langgraph_saver(
    address: Any, serde: SerializerProtocol, *, is_new: bool = False
) -> Iterator[BaseCheckpointSaver[Any] | None]:
    """Open LangGraph's own saver on a database: a `SqliteSaver` on a file, else a `PostgresSaver`.

    Yields None if the database is to be read and has no such tables.

    Args:
        address: The database, as SQLAlchemy's URL.
        serde: Reads and writes the values; a strict one, because a database may contain anything.
        is_new: Whether to create what is missing.

    Raises:
        ConfigurationError: When the saver's package is not installed.
        StoreError: When the database cannot be opened, or the tables cannot be created.
    """
    if not is_new:
        with history_engine(address) as engine:
            tables = tables_in(engine)
        if not {"checkpoints", "writes"} <= tables and not {"checkpoint_writes"} <= tables:
            yield None
            return
    touching = _writing if is_new else _reading
    with touching("The database"):
        opened, saver_type = _connected(address)
    with closing(opened):
        saver = saver_type(opened, serde=serde)
        if is_new:
            with _writing("The database"):
                saver.setup()
        yield saver


def _connected(address: Any) -> tuple[Any, Any]:
    """Return a connection to a database, and the class of LangGraph's saver for it.

    Raises:
        ConfigurationError: When its package is not installed.
    """
    try:
        if address.get_backend_name() == "sqlite":
            from langgraph.checkpoint.sqlite import SqliteSaver  # noqa: PLC0415  # optional

            return sqlite3.connect(str(address.database)), SqliteSaver
        import psycopg  # noqa: PLC0415  # optional
        from langgraph.checkpoint.postgres import PostgresSaver  # noqa: PLC0415  # optional

        plain = address.set(drivername="postgresql")
        url = plain.render_as_string(hide_password=False)
        return psycopg.connect(url, autocommit=True), PostgresSaver
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"For this database {error.name} is needed: pip install "
            f"langgraph-checkpoint-sqlite, or langgraph-checkpoint-postgres."
        ) from error

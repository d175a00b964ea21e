"""`JsonFolder`: items in a folder of readable JSON files, each written whole or not at all.

There is one file per namespace, up to its fifth label: so one per project, per session, and for
the global notes of a user. Its name consists of two hashes: one of the first three labels, which
identify the owner of notes, and one of all five.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

from langchain_tokenmem.core.stored_items import (
    ItemId,
    Namespace,
    StoredItem,
    starts_with,
    value_as_json,
)
from langchain_tokenmem.errors import ConfigurationError, StoreError

logger = logging.getLogger(__name__)

_FORMAT, _VERSION = "tokenmem-items", 1

_FILE_LABELS = 5
"""Labels of a namespace that determine its file."""

_OWNER_LABELS = 3
"""Labels of a note's namespace that identify its owner."""

_UNFINISHED = ".*.json.*.tmp"
"""Pattern of the names of files that are being written."""

_LOCK_S = 60.0
"""Seconds that a process waits for other writers; the lock is not granted in order."""

_POLL_S = 0.01
"""Seconds between two attempts to lock; a write takes a few milliseconds."""

Items = Mapping[ItemId, StoredItem]
ItemChanges = Mapping[ItemId, StoredItem | None]
"""Items to put, by namespace and key; None to delete one."""


class _DamagedFileError(ValueError):
    """A file that this package cannot have written."""


class _ReadFile(NamedTuple):
    """A file as it was read.

    Attributes:
        stamp: Time, size and inode, which change when the file is written.
        root: The namespace of the file.
        items: Its items.
    """

    stamp: tuple[int, int, int]
    root: Namespace
    items: Items


class JsonFolder:
    """The files of a folder.

    The items of a file are cached until the file changes: parsing a thousand notes takes 20 ms,
    checking the file's time 0.03 ms.

    Args:
        path: The folder; created on the first write.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._read: dict[Path, _ReadFile] = {}

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Create the folder, and lock out other writers in this process and in others.

        Raises:
            StoreError: When another process has been writing for a minute, or the folder cannot
                be written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path / ".lock", timeout=_LOCK_S, poll_interval=_POLL_S):
                yield
        except Timeout as error:
            raise StoreError(
                f"{self.path}: another process has been writing for {_LOCK_S:.0f} s, and nothing "
                f"was stored. Try again."
            ) from error
        except OSError as error:
            raise StoreError(f"{self.path} cannot be written ({error}).") from error

    def file_of(self, namespace: Namespace) -> Path:
        """Return the file that holds the items of a namespace."""
        owner, root = namespace[:_OWNER_LABELS], namespace[:_FILE_LABELS]
        return self.path / f"{_hash(owner)}-{_hash(root)}.json"

    def _files_under(self, prefix: Namespace) -> list[Path]:
        """Return the files that may contain items under a prefix."""
        if len(prefix) >= _FILE_LABELS:
            file = self.file_of(prefix)
            return [file] if file.exists() else []
        return sorted(self.path.glob(f"{_owner_pattern(prefix)}-*.json"))

    def items_under(self, prefix: Namespace) -> dict[ItemId, StoredItem]:
        """Return the items under a prefix; a damaged file is set aside.

        Raises:
            StoreError: When a file cannot be read.
        """
        return {
            item_id: item
            for file in self._files_under(prefix)
            for item_id, item in self.read(file).items()
            if starts_with(item.namespace, prefix)
        }

    def read(self, file: Path) -> Items:
        """Return the items of a file, or no items if there is no such file.

        A damaged file is renamed, which is logged.

        Raises:
            StoreError: When it cannot be read, or a newer version of this package wrote it.
        """
        try:
            return self._parsed(file)
        except _DamagedFileError:
            with self._locked():
                return self._read_locked(file)

    def _read_locked(self, file: Path) -> Items:
        """Do the same as `read`; the caller holds the lock."""
        try:
            return self._parsed(file)
        except _DamagedFileError as error:
            aside = file.with_name(f"{file.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S.%f}Z")
            try:
                file.rename(aside)
            except OSError as reason:
                raise StoreError(
                    f"{file} is damaged ({error}) and cannot be set aside ({reason}). Nothing was "
                    f"changed; repair it, or move it away."
                ) from reason
            logger.error(  # noqa: TRY400  where it was found is of no use
                "%s is damaged (%s). It was set aside as %s, and its items are missing: repair it, "
                "stop the processes that use the folder, and restore its name.",
                file,
                error,
                aside,
            )
            return {}

    def _parsed(self, file: Path) -> Items:
        try:
            with file.open("rb") as opened:
                stamp = _stamp(opened.fileno())
                known = self._read.get(file)
                if known is None or known.stamp != stamp:
                    known = _ReadFile(stamp, *_decoded(opened.read()))
                    if self.file_of(known.root) != file:
                        raise _DamagedFileError("it has the name of another namespace's file")
                    self._read[file] = known
                return known.items
        except FileNotFoundError:
            self._read.pop(file, None)
            return {}
        except OSError as error:
            raise StoreError(f"{file} cannot be read ({error}).") from error
        except StoreError as error:
            raise StoreError(f"{file}: {error}") from error

    def merge(self, changes: ItemChanges) -> None:
        """Apply changes to the files as other processes left them, with one write per file.

        What a killed process was writing is deleted.

        Raises:
            StoreError: When a file cannot be written; those before it have been.
        """
        by_file: dict[Path, dict[ItemId, StoredItem | None]] = {}
        for item_id, change in changes.items():
            by_file.setdefault(self.file_of(item_id[0]), {})[item_id] = change
        with self._locked():
            for unfinished in self.path.glob(_UNFINISHED):
                unfinished.unlink(missing_ok=True)
            for file, own in by_file.items():
                self._write(file, with_changes(self._read_locked(file), own))

    def _write(self, file: Path, items: Items) -> None:
        """Write a whole file, or delete it if there are no items; the caller holds the lock."""
        if items:
            root = next(iter(items))[0][:_FILE_LABELS]
            new = file.with_name(f".{file.name}.{uuid.uuid4().hex}.tmp")
            with new.open("xb") as opened:
                opened.write(_encoded(root, items.values()))
                opened.flush()
                os.fsync(opened.fileno())
                written = _ReadFile(_stamp(opened.fileno()), root, items)
            new.replace(file)
            self._read[file] = written
        else:
            file.unlink(missing_ok=True)
            self._read.pop(file, None)
        _sync_folder(self.path)

    def has_unfinished(self) -> bool:
        """Return whether a process is writing, or was killed while it wrote."""
        return any(self.path.glob(_UNFINISHED))

    def set_aside(self, prefix: Namespace) -> tuple[list[Path], list[Path]]:
        """Return damaged files that were set aside.

        Returns:
            Those that contained only items under the prefix, and those that may have contained
            some: their names identify only the owner and the whole namespace, nothing in between.
        """
        found = set(self.path.glob(f"{_owner_pattern(prefix)}-*.json.damaged-*"))
        if len(prefix) in {0, _OWNER_LABELS}:
            return sorted(found), []
        own = set(self.path.glob(f"{self.file_of(prefix).name}.damaged-*"))
        if len(prefix) > _FILE_LABELS:
            return [], sorted(own)
        return sorted(own), [] if len(prefix) == _FILE_LABELS else sorted(found - own)


def with_changes(items: Items, changes: ItemChanges) -> dict[ItemId, StoredItem]:
    """Return items after changes; an existing item keeps its creation time."""
    after = dict(items)
    for item_id, item in changes.items():
        before = after.pop(item_id, None)
        if item is not None:
            after[item_id] = replace(item, created_at=before.created_at) if before else item
    return after


def _encoded(root: Namespace, items: Iterable[StoredItem]) -> bytes:
    """Return the content of a file: sorted keys, one block of lines per item."""
    ordered = sorted(items, key=lambda item: item.item_id)
    content = {
        "format": _FORMAT,
        "version": _VERSION,
        "namespace": [*root],
        "items": [_block(root, item) for item in ordered],
    }
    text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False)
    # UTF-8 cannot encode a lone surrogate; it becomes a JSON escape.
    return f"{text}\n".encode("utf-8", "backslashreplace")


def _block(root: Namespace, item: StoredItem) -> dict[str, Any]:
    block: dict[str, Any] = {
        "key": item.key,
        "value": json.loads(item.value),
        "created_at": item.created_at.isoformat(),
        "updated_at": item.updated_at.isoformat(),
    }
    if len(item.namespace) > len(root):
        block["below"] = [*item.namespace[len(root) :]]
    return block


def _decoded(content: bytes) -> tuple[Namespace, Items]:
    """Return the namespace of a file, and its items.

    Of two blocks for one item, as merging two branches may leave them, the newer one wins.

    Raises:
        _DamagedFileError: When it is not what `_encoded` writes.
        StoreError: When a newer version of this package wrote it.
    """
    try:
        found = json.loads(content)
        version = found["version"] if found["format"] == _FORMAT else 0
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise _DamagedFileError(f"it is not JSON of this package: {error}") from error
    if isinstance(version, int) and version > _VERSION:
        raise StoreError(
            f"A newer version of langchain-tokenmem wrote it ({_FORMAT} {version}, this package "
            f"reads {_VERSION}). Upgrade langchain-tokenmem."
        )
    try:
        root = tuple(found["namespace"])
        items = [_item(root, block) for block in found["items"]]
    except (ConfigurationError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise _DamagedFileError(f"an item of it cannot be read: {error!r}") from error
    if version != _VERSION or not all(isinstance(n, str) for i in items for n in i.namespace):
        raise _DamagedFileError("its content was not written by this package")
    newest_last = sorted(items, key=lambda item: item.updated_at)
    return root, {item.item_id: item for item in newest_last}


def _item(root: Namespace, block: Mapping[str, Any]) -> StoredItem:
    if not isinstance(block["key"], str):
        raise TypeError(f"the key {block['key']!r} is not a text")
    return StoredItem(
        namespace=(*root, *block.get("below", ())),
        key=block["key"],
        value=value_as_json(block["value"]),
        created_at=_time(block["created_at"]),
        updated_at=_time(block["updated_at"]),
    )


def _time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(f"the time {text} has no time zone")
    return time


def _owner_pattern(prefix: Namespace) -> str:
    return _hash(prefix[:_OWNER_LABELS]) if len(prefix) >= _OWNER_LABELS else "*"


def _hash(labels: Namespace) -> str:
    return hashlib.sha256(json.dumps(labels).encode()).hexdigest()[:16]


def _stamp(descriptor: int) -> tuple[int, int, int]:
    at = os.fstat(descriptor)
    return at.st_mtime_ns, at.st_size, at.st_ino


def _sync_folder(path: Path) -> None:
    """Flush the names in a folder to disk, if the system supports it."""
    if os.name == "posix":
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

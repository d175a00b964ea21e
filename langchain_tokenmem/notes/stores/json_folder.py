"""A folder of JSON files with items: read, merged under a lock, written whole or not at all.

One file for each namespace up to its fifth label: so one for each project, for each session and for
the global notes of a user. Its name is two hashes, of the first three labels, which name the owner
of notes, and of all five.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock, Timeout

from langchain_tokenmem.core.stored_items import (
    ItemChange,
    ItemId,
    Namespace,
    StoredItem,
    changed,
    starts_with,
)
from langchain_tokenmem.errors import StoreError
from langchain_tokenmem.notes.stores.json_format import DamagedFileError, Items, decoded, encoded

logger = logging.getLogger(__name__)

FILE_LABELS = 5
"""Labels of a namespace that name its file."""

OWNER_LABELS = 3
"""Labels that name the owner in the namespace of a note."""

_LOCK_S = 60.0
"""Seconds that a process waits for others that write; the lock is not given in turn."""

_POLL_S = 0.01
"""Seconds between two looks whether they have done; a write takes a few milliseconds."""


class ItemsFile(NamedTuple):
    """A file as it was read.

    Attributes:
        stamp: Time, size and number of the file: another one has another.
        root: The namespace of the file.
        items: Its items.
    """

    stamp: tuple[int, int, int]
    root: Namespace
    items: Items


class JsonFolder:
    """The files of a folder.

    Args:
        path: The folder; made on the first write.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._read: dict[Path, ItemsFile] = {}

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other writers off, of this process and of others; the folder is there then.

        Raises:
            StoreError: When somebody else has been writing for a minute, or the folder cannot
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
        owner, root = namespace[:OWNER_LABELS], namespace[:FILE_LABELS]
        return self.path / f"{_hash(owner)}-{_hash(root)}.json"

    def files_under(self, prefix: Namespace) -> list[Path]:
        """Return the files that may hold items under a prefix."""
        if len(prefix) >= FILE_LABELS:
            file = self.file_of(prefix)
            return [file] if file.exists() else []
        found = self.path.glob(f"{_owner_pattern(prefix)}-*.json")
        return sorted(file for file in found if self._may_hold(file, prefix))

    def _may_hold(self, file: Path, prefix: Namespace) -> bool:
        """Return whether a file may hold items under a prefix; its name stands for its root."""
        known = self._read.get(file)
        return known is None or starts_with(known.root, prefix)

    def items_under(self, prefix: Namespace) -> dict[ItemId, StoredItem]:
        """Return the items under a prefix; a damaged file is set aside.

        Raises:
            StoreError: When a file cannot be read.
        """
        return {
            item_id: item
            for file in self.files_under(prefix)
            for item_id, item in self.read(file).items()
            if starts_with(item.namespace, prefix)
        }

    def read(self, file: Path) -> Items:
        """Return the items of a file, none where there is no such file.

        A damaged file is given another name, and the log says so.

        Raises:
            StoreError: When it cannot be read, or a newer version of this package wrote it.
        """
        try:
            return self._parsed(file)
        except DamagedFileError:
            with self.locked():
                return self.read_locked(file)

    def read_locked(self, file: Path) -> Items:
        """Do the same as `read` where the caller holds the lock."""
        try:
            return self._parsed(file)
        except DamagedFileError as error:
            aside = file.with_name(f"{file.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S.%f}Z")
            try:
                file.rename(aside)
            except OSError as reason:
                raise StoreError(
                    f"{file} is damaged ({error}) and cannot be set aside ({reason}). Nothing was "
                    f"changed; mend it, or move it away."
                ) from reason
            logger.error(  # noqa: TRY400  where it was found is of no use
                "%s is damaged (%s). It was set aside as %s, and its items are missing: mend it, "
                "stop the processes that use the folder, and give it its name back.",
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
                    known = ItemsFile(stamp, *decoded(opened.read()))
                    if self.file_of(known.root) != file:
                        raise DamagedFileError("it has the name of another namespace's file")
                    self._read[file] = known
                return known.items
        except FileNotFoundError:
            self._read.pop(file, None)
            return {}
        except OSError as error:
            raise StoreError(f"{file} cannot be read ({error}).") from error
        except StoreError as error:
            raise StoreError(f"{file}: {error}") from error

    def merge(self, changes: Mapping[ItemId, ItemChange]) -> None:
        """Bring changes into the files, on top of what others have written; one write for a file.

        Raises:
            StoreError: When a file cannot be written; those before it are.
        """
        by_file: dict[Path, dict[ItemId, ItemChange]] = {}
        for item_id, change in changes.items():
            by_file.setdefault(self.file_of(item_id[0]), {})[item_id] = change
        with self.locked():
            for file, own in by_file.items():
                self.write_locked(file, with_changes(self.read_locked(file), own))

    def write_locked(self, file: Path, items: Items) -> None:
        """Write a file whole, or delete it where there is no item; the caller holds the lock."""
        self._delete_unfinished()
        if items:
            root = next(iter(items))[0][:FILE_LABELS]
            new = file.with_name(f".{file.name}.{uuid.uuid4().hex}.tmp")
            with new.open("xb") as opened:
                opened.write(encoded(root, items.values()))
                opened.flush()
                os.fsync(opened.fileno())
                written = ItemsFile(_stamp(opened.fileno()), root, items)
            new.replace(file)
            self._read[file] = written  # to read a thousand notes back takes 20 ms
        else:
            file.unlink(missing_ok=True)
            self._read.pop(file, None)
        _sync_folder(self.path)

    def _delete_unfinished(self) -> None:
        """Delete what a killed process was writing; with the lock nobody is."""
        for left in self.path.glob(".*.json.*.tmp"):
            left.unlink(missing_ok=True)

    def set_aside(self, prefix: Namespace) -> tuple[list[Path], list[Path]]:
        """Return damaged files that were set aside.

        Returns:
            Those that held nothing but items under the prefix, and those of which nobody can tell:
            their names say which owner and which namespace they were of, and nothing between.
        """
        found = set(self.path.glob(f"{_owner_pattern(prefix)}-*.json.damaged-*"))
        if len(prefix) in {0, OWNER_LABELS}:
            return sorted(found), []
        own = set(self.path.glob(f"{self.file_of(prefix).name}.damaged-*"))
        if len(prefix) > FILE_LABELS:
            return [], sorted(own)
        return sorted(own), [] if len(prefix) == FILE_LABELS else sorted(found - own)


def with_changes(items: Items, changes: Mapping[ItemId, ItemChange]) -> dict[ItemId, StoredItem]:
    """Return items after changes; what is put stands last."""
    after = dict(items)
    for item_id, change in changes.items():
        item = changed(item_id, after.pop(item_id, None), change)
        if item is not None:
            after[item_id] = item
    return after


def _owner_pattern(prefix: Namespace) -> str:
    return _hash(prefix[:OWNER_LABELS]) if len(prefix) >= OWNER_LABELS else "*"


def _hash(labels: Namespace) -> str:
    return hashlib.sha256(json.dumps(labels).encode()).hexdigest()[:16]


def _stamp(descriptor: int) -> tuple[int, int, int]:
    at = os.fstat(descriptor)
    return at.st_mtime_ns, at.st_size, at.st_ino


def _sync_folder(path: Path) -> None:
    """Bring the names in a folder to the disk, where the system can."""
    if os.name == "posix":
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

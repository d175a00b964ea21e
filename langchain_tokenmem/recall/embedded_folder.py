"""Folder of an embedded Chroma: locked for one process, and deleted if it is damaged.

Embedded Chroma checks neither. Two processes damage each other's graphs silently; with some damaged
files it answers wrongly or not at all, and a truncated `header.bin` crashes the process
(segmentation fault, chromadb 1.5.9). Collections are caches, so each has its own folder, and the
sizes of its files are recorded after each write: a folder with other sizes is deleted before Chroma
opens it, and filled again from the store.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock, Timeout

from langchain_tokenmem.errors import RecallError

logger = logging.getLogger(__name__)


class EmbeddedFolder:
    """The folders of embedded collections.

    Args:
        path: The folder that contains them; created on first use.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute() / "tokenmem"
        self._process: int | None = None
        self._lock: FileLock | None = None

    def lock(self) -> None:
        """Lock the folder for this process; the operating system unlocks it when the process ends.

        Raises:
            RecallError: When another process has locked it, or this one was forked since.
        """
        if self._process == os.getpid():
            return
        folder = self.path.parent
        advice = (
            f"or run a server with `chroma run --path {folder}` and pass "
            f'ChromaIndex(host="localhost", port=8000, ...) in every process.'
        )
        if self._process is not None:
            raise RecallError(
                f"{folder} was opened before this process was forked: embedded Chroma does not "
                f"survive a fork. Create the ChromaIndex after the fork, {advice}"
            )
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            # One object per folder and process: indexes of one process share the lock.
            lock = FileLock(folder / "tokenmem.lock", thread_local=False, is_singleton=True)
            lock.acquire(blocking=False)
            if lock.lock_counter == 1:
                self._drop_what_was_not_left_whole()
        except Timeout as error:
            raise RecallError(
                f"Another process has the embedded Chroma in {folder} open; two would damage "
                f"its index. Recall is lexical here. Close the other one, {advice}"
            ) from error
        except OSError as error:
            raise RecallError(f"{folder} cannot be locked for Chroma ({error}).") from error
        self._lock, self._process = lock, os.getpid()

    def unlock(self) -> None:
        """Unlock the folder, unless another index of this process still uses it."""
        if self._lock is not None and self._process == os.getpid():
            self._lock.release()
        self._lock = self._process = None

    def _drop_what_was_not_left_whole(self) -> None:
        for folder in [one for one in self.path.iterdir() if one.is_dir()]:
            try:
                noted = json.loads(self._note(folder.name).read_text())
            except (OSError, ValueError):
                noted = None
            if noted != _sizes(folder):
                logger.warning(
                    "%s was left by a process that died, or was changed since: it is deleted and "
                    "rebuilt from the store.",
                    folder,
                )
                self.drop(folder.name)

    def path_of(self, collection: str) -> Path:
        """Return the folder of a collection."""
        return self.path / collection

    def has(self, collection: str) -> bool:
        """Lock the folder; return whether it has the collection, undamaged."""
        self.lock()
        return self.path_of(collection).exists()

    def begin_writing(self, collection: str) -> None:
        """Mark a collection as being written to.

        If a process dies meanwhile, entries may be stored but never found; counts do not show it.
        """
        self._note(collection).unlink(missing_ok=True)

    def end_writing(self, collection: str) -> None:
        """Record the sizes of a collection's files."""
        self._note(collection).write_text(json.dumps(_sizes(self.path_of(collection))))

    def drop(self, collection: str) -> None:
        """Delete a collection's files."""
        self._note(collection).unlink(missing_ok=True)
        shutil.rmtree(self.path_of(collection), ignore_errors=True)

    def holding(self, holds: Callable[[str], bool]) -> list[str]:
        """Return the collections with a file for which `holds` is true.

        Chroma writes unused memory of the process into its files (chroma-core/chroma#7688).
        """
        self.lock()
        return [
            folder.name
            for folder in sorted(self.path.iterdir())
            if folder.is_dir()
            and any(
                holds(file.read_bytes().decode(errors="replace"))
                for file in folder.rglob("*")
                if file.is_file()
            )
        ]

    def _note(self, collection: str) -> Path:
        return self.path / f"{collection}.sizes"


def _sizes(folder: Path) -> dict[str, int]:
    files = (one for one in folder.rglob("*") if one.is_file())
    return {one.relative_to(folder).as_posix(): one.stat().st_size for one in files}

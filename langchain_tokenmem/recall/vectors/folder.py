"""The folder of an embedded Chroma: one process at a time, and no file that was cut short.

Embedded Chroma looks after neither. Of its own files it reports some damage, answers wrongly or
not at all after other (a `data_level0.bin` of half its size finds nothing and says nothing), and
one takes the whole process down (a `header.bin` that was cut: segmentation fault). So the folder
is looked at before Chroma is.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from uuid import uuid4

from filelock import FileLock, Timeout

from langchain_tokenmem.errors import RecallError

logger = logging.getLogger(__name__)

DATABASE = "chroma.sqlite3"
_OURS = "tokenmem"
_PROCESS = uuid4().hex
"""Tells this process from one that died with the same number."""


class ChromaFolder:
    """What is done to the folder of an embedded Chroma beside Chroma itself.

    Args:
        path: The folder; made on first use.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._process: int | None = None
        self._lock: FileLock | None = None

    # --- one process at a time

    def take(self) -> None:
        """Keep other processes off; the operating system lets them in when this one ends.

        Raises:
            RecallError: When another process is there, or when this one is a fork of it.
        """
        if self._process == os.getpid():
            return
        if self._process is not None:
            raise RecallError(
                f"{self.path} was opened before this process was forked: embedded Chroma does not "
                f"live through a fork. Make the ChromaIndex after the fork, {self._advice}"
            )
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            # One object for each folder and process: indexes of one process share the lock.
            lock = FileLock(self.path / f"{_OURS}.lock", thread_local=False, is_singleton=True)
            lock.acquire(blocking=False)
        except Timeout as error:
            raise RecallError(
                f"Another process has the embedded Chroma in {self.path} open; two would damage "
                f"its index. Recall is lexical here. Close the other one, {self._advice}"
            ) from error
        except OSError as error:
            raise RecallError(f"{self.path} cannot be locked for Chroma ({error}).") from error
        self._lock, self._process = lock, os.getpid()

    def give_back(self) -> None:
        """Let other processes in, unless another index of this process is still there."""
        if self._lock is not None and self._process == os.getpid():
            self._lock.release()
        self._lock = self._process = None

    @property
    def _advice(self) -> str:
        return (
            f"or run a server with `chroma run --path {self.path}` and pass "
            f'ChromaIndex(host="localhost", port=8000, ...) in every process.'
        )

    # --- what a process that died has left

    def begin_writing(self, collection: str) -> None:
        """Leave a mark that a collection is being written to.

        A process that dies meanwhile leaves the mark, and with it perhaps entries that are stored
        and never found: no count tells them (FACTS.md).
        """
        self._mark(collection).write_text(_PROCESS)

    def end_writing(self, collection: str) -> None:
        """Take the mark away, and note the sizes of the collection's files."""
        folder = self._graph_folder(collection)
        sizes = {} if folder is None else _sizes(folder)
        seal = {"folder": None if folder is None else folder.name, "sizes": sizes}
        self._seal(collection).write_text(json.dumps(seal))
        self._mark(collection).unlink(missing_ok=True)

    def fault_of(self, collection: str) -> str | None:
        """Return what is wrong with a collection before it is opened; None when nothing is."""
        mark = self._mark(collection)
        if mark.exists() and mark.read_text() != _PROCESS:
            return "a process died while it wrote to it"
        seal = self._seal(collection)
        if mark.exists() or not seal.exists():
            return None
        try:
            noted = json.loads(seal.read_text())
            folder, sizes = noted["folder"], dict(noted["sizes"])
        except (ValueError, KeyError, TypeError):
            return "the note of its files' sizes cannot be read"
        if folder is None or sizes == _sizes(self.path / folder):
            return None
        return f"files in {folder} are missing or have another size than they were left with"

    def forget(self, collection: str) -> None:
        """Delete what was noted about a collection."""
        self._mark(collection).unlink(missing_ok=True)
        self._seal(collection).unlink(missing_ok=True)

    def _mark(self, collection: str) -> Path:
        return self.path / f"{_OURS}-writing-{collection}"

    def _seal(self, collection: str) -> Path:
        return self.path / f"{_OURS}-sizes-{collection}"

    # --- files of Chroma

    def make_sound(self) -> None:
        """Move everything into a folder beside it when Chroma's database is damaged.

        Nothing is deleted: a Chroma that does not open may hold collections of others. Chroma must
        not meet such a database: it keeps the failed attempt for as long as the process lives.
        """
        database = self.path / DATABASE
        if not database.exists() or _is_sound(database):
            return
        names = [one for one in self.path.iterdir() if not one.name.startswith((_OURS, _ASIDE))]
        number = sum(one.name.startswith(_ASIDE) for one in self.path.iterdir()) + 1
        target = self.path / f"{_ASIDE}{number}"
        target.mkdir()
        for one in names:
            shutil.move(str(one), str(target))
        logger.warning(
            "The database of the embedded Chroma in %s is damaged; its files are in %s now, and "
            "recall's part is made anew from the store.",
            self.path,
            target,
        )

    def _graph_folder(self, collection: str) -> Path | None:
        """Return where Chroma keeps the graph of a collection; None when it cannot be told."""
        query = (
            "SELECT segments.id FROM segments JOIN collections"
            " ON segments.collection = collections.id"
            " WHERE collections.name = ? AND segments.scope = 'VECTOR'"
        )
        try:
            with closing(_opened(self.path / DATABASE)) as connection:
                row = connection.execute(query, (collection,)).fetchone()
        except sqlite3.Error as error:
            logger.info("Chroma's list of segments cannot be read: %s", error)
            return None
        return self.path / str(row[0]) if row and (self.path / str(row[0])).is_dir() else None

    def take_graph(self, collection: str) -> Path | None:
        """Return the folder that `remove_graph` deletes once Chroma has dropped a collection."""
        return self._graph_folder(collection) if (self.path / DATABASE).exists() else None

    def remove_graph(self, folder: Path | None) -> None:
        """Delete the graph of a dropped collection: Chroma leaves its files behind."""
        if folder is not None and folder.parent == self.path:
            shutil.rmtree(folder, ignore_errors=True)


_ASIDE = "damaged-"


def _opened(database: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=5)


def _is_sound(database: Path) -> bool:
    try:
        with closing(_opened(database)) as connection:
            found = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        # A file that cannot be read right now is not a damaged one.
        return "malformed" not in str(error)
    except sqlite3.DatabaseError:
        return False
    return bool(found and found[0] == "ok")


def _sizes(folder: Path) -> dict[str, int]:
    if not folder.is_dir():
        return {}
    return {one.name: one.stat().st_size for one in sorted(folder.iterdir()) if one.is_file()}

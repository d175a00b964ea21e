"""Reads everything in a database, and lists what cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from langchain_tokenmem.errors import StoreError
from langchain_tokenmem.storage.checkpoint_rows import Address
from langchain_tokenmem.storage.checkpoints import CheckpointStore
from langchain_tokenmem.storage.sessions import MESSAGES, find
from langchain_tokenmem.storage.tables import checkpoints, sessions
from langchain_tokenmem.storage.transcripts import read

Progress = Callable[[int, int], None]
"""Called with how many checkpoints were looked at, and how many there are."""

_MOST_LINES = 20


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        thread: Id of the thread or session; empty where it is the file.
        checkpoint: Id of the checkpoint; empty when it is not about a single one.
        what: What is wrong.
    """

    thread: str
    checkpoint: str
    what: str


@dataclass(frozen=True)
class Examination:
    """Result of an examination.

    Attributes:
        sessions: Sessions, threads among them.
        checkpoints: Checkpoints.
        findings: What is wrong.
    """

    sessions: int
    checkpoints: int
    findings: tuple[Finding, ...]


def examine(store: CheckpointStore, progress: Progress = lambda _, __: None) -> Examination:
    """Read every message and every checkpoint, and say what cannot be read; nothing is changed.

    Raises:
        CorruptStoreError: When the database cannot even be opened as one of this package.
    """
    database, findings = store.database, list[Finding]()
    names: list[str] = []
    keys: list[tuple[str, str, str]] = []
    with database.reading("The database") as connection:
        if database.is_sqlite:
            check = connection.exec_driver_sql(f"PRAGMA integrity_check({_MOST_LINES})").scalars()
            findings += [Finding("", "", f"the file: {line}") for line in check if line != "ok"]
        with _noting(findings, "", ""):
            own = select(sessions.c.name).where(sessions.c.kind == MESSAGES)
            names = list(connection.execute(own).scalars())
            columns = (checkpoints.c.thread_id, checkpoints.c.ns, checkpoints.c.checkpoint_id)
            keys = [(t, ns, name) for t, ns, name in connection.execute(select(*columns))]
    for name in names:
        with _noting(findings, name, ""), database.reading(f"Session {name!r}") as connection:
            session = find(connection, name)
            if session is not None:
                read(connection, session, session.first_seq)
    for done, key in enumerate(keys, 1):
        with _noting(findings, key[0], key[2]):
            store.get(Address(*key))
        progress(done, len(keys))
    return Examination(len(names), len(keys), tuple(findings))


@contextmanager
def _noting(findings: list[Finding], thread: str, checkpoint: str) -> Iterator[None]:
    """Note what cannot be read."""
    try:
        yield
    except (StoreError, SQLAlchemyError) as error:
        findings.append(Finding(thread, checkpoint, str(error)))

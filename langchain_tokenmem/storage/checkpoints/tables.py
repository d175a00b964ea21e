"""The tables of checkpointed threads."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
)

from langchain_tokenmem.storage.database.tables import metadata

_NUMBER = BigInteger().with_variant(Integer, "sqlite")
"""SQLite numbers rows by itself in an INTEGER column only."""

_ORDERED = Text().with_variant(Text(collation="C"), "postgresql")
"""Compared byte by byte, whatever language the server speaks."""

groups = Table(
    "tokenmem_checkpoint_groups",
    metadata,
    Column("group_id", _NUMBER, primary_key=True, autoincrement=True),
    Column("thread_key", Text, nullable=False),
    Column("session_key", Text, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("last_number", BigInteger, nullable=False),
    Column("seal", LargeBinary, nullable=False),
    UniqueConstraint("session_key"),
    # A number is never given twice, so what one process remembers of a deleted thread is never
    # taken for the new one.
    sqlite_autoincrement=True,
)
"""One row for each session of a thread: the spaces in it share their messages."""

spaces = Table(
    "tokenmem_checkpoint_spaces",
    metadata,
    Column("space_id", _NUMBER, primary_key=True, autoincrement=True),
    Column("thread_key", Text, nullable=False),
    Column("ns_key", Text, nullable=False),
    # A second index over the same rows: one damaged page cannot hide a thread from both.
    Column("fingerprint", _ORDERED, nullable=False),
    Column("thread_id", Text, nullable=False),
    Column("checkpoint_ns", Text, nullable=False),
    Column("group_id", BigInteger, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("last_blob", BigInteger, nullable=False),
    Column("head", Text),
    Column("tips", Text, nullable=False),
    Column("seal", LargeBinary, nullable=False),
    UniqueConstraint("thread_key", "ns_key"),
    UniqueConstraint("fingerprint"),
    sqlite_autoincrement=True,
)
"""One row for each checkpoint namespace of a thread: how many checkpoints it has, which one is the
head, and which are the tips of its branches."""

checkpoints = Table(
    "tokenmem_checkpoints",
    metadata,
    Column("space_id", BigInteger, nullable=False),
    Column("checkpoint_key", _ORDERED, nullable=False),
    Column("run_key", LargeBinary),
    Column("writes", BigInteger, nullable=False),
    Column("writes_seal", LargeBinary, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("seal", LargeBinary, nullable=False),
    PrimaryKeyConstraint("space_id", "checkpoint_key"),
    sqlite_with_rowid=False,
)
"""One row a checkpoint, its metadata and its small values included."""

Index(
    "tokenmem_checkpoints_by_run",
    checkpoints.c.run_key,
    sqlite_where=checkpoints.c.run_key.is_not(None),
    postgresql_where=checkpoints.c.run_key.is_not(None),
)

blobs = Table(
    "tokenmem_checkpoint_blobs",
    metadata,
    Column("space_id", BigInteger, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("refs", Text, nullable=False),
    Column("seal", LargeBinary, nullable=False),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("space_id", "number"),
)
"""Large values of channels; checkpoints that have the same one share it."""

writes = Table(
    "tokenmem_checkpoint_writes",
    metadata,
    Column("space_id", BigInteger, nullable=False),
    Column("checkpoint_key", _ORDERED, nullable=False),
    Column("task_key", Text, nullable=False),
    Column("idx", BigInteger, nullable=False),
    # Seconds since the epoch: what belongs to a run that died is known by its age.
    Column("written", BigInteger, nullable=False),
    Column("refs", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("seal", LargeBinary, nullable=False),
    PrimaryKeyConstraint("space_id", "checkpoint_key", "task_key", "idx"),
    sqlite_with_rowid=False,
)
"""One row for each pending write."""

contents = Table(
    "tokenmem_checkpoint_contents",
    metadata,
    Column("group_id", BigInteger, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("seq", BigInteger),
    Column("body", LargeBinary),
    Column("seal", LargeBinary, nullable=False),
    PrimaryKeyConstraint("group_id", "number"),
    UniqueConstraint("group_id", "digest"),
    sqlite_with_rowid=False,
)
"""Messages by what they say: in full, or, when the transcript has them, by their number there."""

"""Tables of checkpointed threads.

`docs/storage.md` shows a row of each. A `seal` is a checksum over the other columns of its row, in
their order here; with a key it is one that nobody else can make.
"""

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

thread_sessions = Table(
    "tokenmem_checkpoint_sessions",
    metadata,
    Column("session_number", _NUMBER, primary_key=True, autoincrement=True),
    Column("thread_key", Text, nullable=False),
    Column("session_key", Text, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("last_message_number", BigInteger, nullable=False),
    Column("seal", LargeBinary, nullable=False),
    UniqueConstraint("session_key"),
    # A number is never given twice, so what one process remembers of a deleted thread is never
    # taken for the new one.
    sqlite_autoincrement=True,
)
"""One row for each session of a thread: the namespaces in it share their messages."""

namespaces = Table(
    "tokenmem_checkpoint_namespaces",
    metadata,
    Column("namespace_id", _NUMBER, primary_key=True, autoincrement=True),
    Column("thread_key", Text, nullable=False),
    Column("checkpoint_ns_key", Text, nullable=False),
    # A second index over the same rows: one damaged page cannot hide a thread from both.
    Column("fingerprint", _ORDERED, nullable=False),
    Column("thread_id", Text, nullable=False),
    Column("checkpoint_ns", Text, nullable=False),
    Column("session_number", BigInteger, nullable=False),
    Column("checkpoint_count", BigInteger, nullable=False),
    Column("last_value_number", BigInteger, nullable=False),
    Column("latest_checkpoint_id", Text),
    Column("leaf_checkpoint_ids", Text, nullable=False),
    Column("seal", LargeBinary, nullable=False),
    UniqueConstraint("thread_key", "checkpoint_ns_key"),
    UniqueConstraint("fingerprint"),
    sqlite_autoincrement=True,
)
"""One row for each checkpoint namespace of a thread: how many checkpoints it has, from which one a
run goes on, and which ones end a branch."""

checkpoints = Table(
    "tokenmem_checkpoints",
    metadata,
    Column("namespace_id", BigInteger, nullable=False),
    Column("checkpoint_key", _ORDERED, nullable=False),
    Column("run_hash", LargeBinary),
    # These two have a seal of their own: pending writes come before and after their checkpoint.
    Column("write_count", BigInteger, nullable=False),
    Column("write_count_seal", LargeBinary, nullable=False),
    Column("checkpoint", LargeBinary, nullable=False),
    Column("seal", LargeBinary, nullable=False),
    PrimaryKeyConstraint("namespace_id", "checkpoint_key"),
    sqlite_with_rowid=False,
)
"""One row for each checkpoint, its metadata and its small values included."""

Index(
    "tokenmem_checkpoints_by_run",
    checkpoints.c.run_hash,
    sqlite_where=checkpoints.c.run_hash.is_not(None),
    postgresql_where=checkpoints.c.run_hash.is_not(None),
)

channel_values = Table(
    "tokenmem_checkpoint_values",
    metadata,
    Column("namespace_id", BigInteger, nullable=False),
    Column("value_number", BigInteger, nullable=False),
    Column("message_refs", Text, nullable=False),
    Column("seal", LargeBinary, nullable=False),
    Column("value", LargeBinary, nullable=False),
    PrimaryKeyConstraint("namespace_id", "value_number"),
)
"""Large values of channels; checkpoints that have the same one share it."""

writes = Table(
    "tokenmem_checkpoint_writes",
    metadata,
    Column("namespace_id", BigInteger, nullable=False),
    Column("checkpoint_key", _ORDERED, nullable=False),
    Column("task_key", Text, nullable=False),
    Column("idx", BigInteger, nullable=False),
    # Seconds since the epoch: what belongs to a run that died is known by its age.
    Column("written_at", BigInteger, nullable=False),
    Column("message_refs", Text, nullable=False),
    Column("value", LargeBinary, nullable=False),
    Column("seal", LargeBinary, nullable=False),
    PrimaryKeyConstraint("namespace_id", "checkpoint_key", "task_key", "idx"),
    sqlite_with_rowid=False,
)
"""One row for each pending write."""

thread_messages = Table(
    "tokenmem_checkpoint_messages",
    metadata,
    Column("session_number", BigInteger, nullable=False),
    Column("message_number", BigInteger, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("transcript_seq", BigInteger),
    Column("message", LargeBinary),
    Column("seal", LargeBinary, nullable=False),
    PrimaryKeyConstraint("session_number", "message_number"),
    UniqueConstraint("session_number", "digest"),
    sqlite_with_rowid=False,
)
"""Messages by what they say: in full, or, when the transcript has them, by their number there."""

SEALED: dict[str, tuple[str, ...]] = {
    table.name: tuple(
        column.name
        for column in table.columns
        if column.name not in {"seal", "write_count", "write_count_seal"}
    )
    for table in (
        thread_sessions,
        namespaces,
        checkpoints,
        channel_values,
        writes,
        thread_messages,
    )
}
"""The columns of each table that its seal is over, in order; the first one names the owner."""

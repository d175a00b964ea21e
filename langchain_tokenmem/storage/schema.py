"""The tables, and the version of their shape."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
)

SCHEMA_VERSION = 1

APPLICATION_ID = 0x746F6B6D
"""Marks a SQLite file as ours in its header (the letters `tokm`)."""

metadata = MetaData()

facts = Table(
    "tokenmem_facts",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("number", BigInteger, nullable=False),
)
"""`schema_version`; and `sessions`, how many session rows there must be."""

sessions = Table(
    "tokenmem_sessions",
    metadata,
    Column("session_key", Text, primary_key=True),
    Column("session_id", Text, nullable=False),
    Column("user_id", Text),
    Column("first_seq", BigInteger, nullable=False),
    Column("last_seq", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("state", Text),
    Column("budget", Text),
    Column("checksum", LargeBinary, nullable=False),
    Index("tokenmem_sessions_by_user", "user_id"),
)
"""One row a session: its messages are those from `first_seq` to `last_seq`, without a gap."""

messages = Table(
    "tokenmem_messages",
    metadata,
    Column("session_key", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("message_key", Text, nullable=False),
    Column("was_named", Boolean, nullable=False),
    Column("digest", String(32), nullable=False),
    Column("created_at", String(40), nullable=False),
    Column("body", Text, nullable=False),
    Column("checksum", LargeBinary, nullable=False),
    PrimaryKeyConstraint("session_key", "seq"),
    Index("tokenmem_messages_by_id", "session_key", "message_key", unique=True),
    sqlite_with_rowid=False,
)
"""One row a message; rows are added and, by `clear`, deleted, never changed."""

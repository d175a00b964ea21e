"""The tables, and the version of their shape."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)

SCHEMA_VERSION = 3

APPLICATION_ID = 0x746F6B6D
"""Marks a SQLite file as ours in its header (the letters `tokm`)."""

metadata = MetaData()

facts = Table(
    "tokenmem_facts",
    metadata,
    Column("name", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
)
"""`schema_version`; in a SQLite file also `shape`, a digest of the table definitions."""

sessions = Table(
    "tokenmem_sessions",
    metadata,
    Column("session_key", Text, primary_key=True),
    # A second index over the same rows: one damaged page cannot hide a session from both.
    Column("fingerprint", Text, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("user_id", Text),
    Column("first_seq", BigInteger, nullable=False),
    Column("last_seq", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("checksum", Text, nullable=False),
    Column("budget", Text),
    Column("state", Text),
    UniqueConstraint("fingerprint"),
)
"""One row a session: its messages are those from `first_seq` to `last_seq`, without a gap."""

messages = Table(
    "tokenmem_messages",
    metadata,
    Column("session_key", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("message_key", Text, nullable=False),
    Column("was_named", Integer, nullable=False),
    Column("digest", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("checksum", Text, nullable=False),
    # Last, so that a look at the other columns never reads the pages of a long text.
    Column("body", Text, nullable=False),
    PrimaryKeyConstraint("session_key", "seq"),
    UniqueConstraint("session_key", "message_key"),
)
"""One row a message; rows are added and, by `clear`, deleted, never changed."""

_UNNAMED = text("was_named = 0")

Index(
    "tokenmem_messages_unnamed",
    messages.c.session_key,
    messages.c.digest,
    sqlite_where=_UNNAMED,
    postgresql_where=_UNNAMED,
)

leases = Table(
    "tokenmem_leases",
    metadata,
    Column("session_key", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("expires_ms", BigInteger, nullable=False),
)
"""Who summarizes a session, and until when; of no value once it has expired."""

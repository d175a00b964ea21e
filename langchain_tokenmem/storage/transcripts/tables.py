"""The tables of transcripts: sessions, messages, their edits, and leases on summarizing."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from langchain_tokenmem.storage.database.tables import metadata

sessions = Table(
    "tokenmem_sessions",
    metadata,
    Column("session_key", Text, primary_key=True),
    # A second index over the same rows: one damaged page cannot hide a session from both.
    Column("session_id_hash", Text, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("user_id", Text),
    Column("first_seq", BigInteger, nullable=False),
    Column("last_seq", BigInteger, nullable=False),
    Column("state_version", BigInteger, nullable=False),
    Column("checksum", Text, nullable=False),
    Column("budget", Text),
    Column("state", Text),
    Column("edit_count", BigInteger, nullable=False, server_default="0"),
    UniqueConstraint("session_id_hash"),
)
"""One row for each session; it has all messages from number `first_seq` to `last_seq`, and as many
edits as `edit_count` says."""

user_settings = Table(
    "tokenmem_user_settings",
    metadata,
    Column("user_id", Text, primary_key=True),
    Column("checksum", Text, nullable=False),
    Column("settings", Text, nullable=False),
)
"""One row for each user who has settings of their own; those of a session stand in its row."""

messages = Table(
    "tokenmem_messages",
    metadata,
    Column("session_key", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("message_key", Text, nullable=False),
    Column("has_own_id", Integer, nullable=False),
    Column("content_hash", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("checksum", Text, nullable=False),
    # Last, so that a look at the other columns never reads the pages of a long text.
    Column("message", Text, nullable=False),
    PrimaryKeyConstraint("session_key", "seq"),
    UniqueConstraint("session_key", "message_key"),
)
"""One row for each message; rows are added and, by `clear`, deleted, never changed."""

edits = Table(
    "tokenmem_message_edits",
    metadata,
    Column("session_key", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("is_current", Integer, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("checksum", Text, nullable=False),
    Column("message", Text),
    PrimaryKeyConstraint("session_key", "seq", "version"),
)
"""Other words of a message: at most one of its edits is current, and shown in the message's place.

Without a `message` it hides the message. Rows are added, and deleted with the session's messages;
only `is_current` is changed.
"""

_UNNAMED = text("has_own_id = 0")

Index(
    "tokenmem_messages_unnamed",
    messages.c.session_key,
    messages.c.content_hash,
    sqlite_where=_UNNAMED,
    postgresql_where=_UNNAMED,
)

leases = Table(
    "tokenmem_leases",
    metadata,
    Column("session_key", Text, primary_key=True),
    Column("held_by", Text, nullable=False),
    Column("expires_at_ms", BigInteger, nullable=False),
)
"""One row for each session that is being summarized; of no value once it has expired."""

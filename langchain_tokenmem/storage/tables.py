"""The ten tables of a database. What belongs to a session goes with its row."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)

PREFIX = "tokenmem_"
"""Begins the names of all our tables."""

metadata = MetaData()

_NUMBER = BigInteger().with_variant(Integer, "sqlite")
_ORDERED = Text().with_variant(Text(collation="C"), "postgresql")
"""Compared byte by byte, whatever language the server speaks."""


def _session_column(**options: Any) -> Column[int]:
    key = ForeignKey("tokenmem_sessions.id", ondelete="CASCADE")
    return Column("session", _NUMBER, key, nullable=False, **options)


facts = Table(
    "tokenmem_facts",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
"""What concerns the whole database: schema version, analyser, collections of vectors; as JSON."""

sessions = Table(
    "tokenmem_sessions",
    metadata,
    Column("id", _NUMBER, primary_key=True, autoincrement=True),
    # `messages`, or the documents of a session or of a user
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("thread_id", Text, nullable=False),
    Column("user_id", Text),
    Column("first_seq", BigInteger, nullable=False),
    Column("last_seq", BigInteger, nullable=False),
    Column("edits", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("settings", Text),
    Column("state", Text),
    Column("leased_by", Text),
    Column("leased_until", Float),
    Column("active_at", _ORDERED),
    Column("is_pinned", Integer, nullable=False),
    Column("is_kept", Integer, nullable=False),
    # What the indexes have: everything below these numbers.
    Column("words_from", BigInteger, nullable=False),
    Column("vectors_from", BigInteger, nullable=False),
    Column("unit_count", BigInteger, nullable=False),
    Column("term_count", BigInteger, nullable=False),
    UniqueConstraint("kind", "name"),
    Index("tokenmem_sessions_thread", "thread_id"),
    Index("tokenmem_sessions_user", "user_id"),
    # In the order of a list, in which PostgreSQL takes no index that has NULL first.
    Index("tokenmem_sessions_active", text("active_at DESC")).ddl_if(dialect="sqlite"),
    Index("tokenmem_sessions_active", text("active_at DESC NULLS LAST")).ddl_if(
        dialect="postgresql"
    ),
    sqlite_autoincrement=True,
)
"""One row a conversation: a session, a thread, or a sub-graph of one (`thread_id` is its root).

It has the messages `first_seq` to `last_seq`; `edits` grows whenever one is shown in other words.
"""

messages = Table(
    "tokenmem_messages",
    metadata,
    _session_column(),
    Column("number", BigInteger, nullable=False),
    # place in the transcript; NULL where only a checkpoint has the message
    Column("seq", BigInteger),
    Column("is_shown", Integer, nullable=False),
    Column("message_id", Text),
    Column("has_own_id", Integer, nullable=False),
    # of what it says, of every field, and of the JSON as it is stored
    Column("content_hash", Text),
    Column("digest", LargeBinary, nullable=False),
    Column("checksum", BigInteger),
    Column("created_at", Text, nullable=False),
    # Last, so that a look at the other columns never reads the pages of a long text.
    Column("message", Text),
    Column("exact", LargeBinary),
    PrimaryKeyConstraint("session", "number"),
    Index("tokenmem_messages_seq", "session", "seq"),
    Index("tokenmem_messages_id", "session", "message_id"),
    Index("tokenmem_messages_digest", "session", "digest"),
    Index(
        "tokenmem_messages_hidden",
        "session",
        sqlite_where=text("is_shown = 0"),
        postgresql_where=text("is_shown = 0"),
    ),
)
"""One row for each wording of each message; of those with one `seq` at most one is shown.

`message` is the JSON that a transcript shows; `exact` is LangGraph's serialization where a
checkpoint holds what JSON cannot say. Documents are rows, too: of a session of their own.
"""

checkpoints = Table(
    "tokenmem_checkpoints",
    metadata,
    Column("thread_id", Text, nullable=False),
    Column("ns", Text, nullable=False),
    Column("checkpoint_id", _ORDERED, nullable=False),
    Column("parent_id", Text),
    Column("run_id", Text, index=True),
    _session_column(index=True),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("thread_id", "ns", "checkpoint_id"),
    Index("tokenmem_checkpoints_parent", "thread_id", "ns", "parent_id"),
)

values = Table(
    "tokenmem_checkpoint_values",
    metadata,
    _session_column(),
    Column("digest", LargeBinary, nullable=False),
    Column("value", LargeBinary, nullable=False),
    PrimaryKeyConstraint("session", "digest"),
)
"""Larger values of channels, by a hash of what they say: each is stored once."""

writes = Table(
    "tokenmem_checkpoint_writes",
    metadata,
    Column("thread_id", Text, nullable=False),
    Column("ns", Text, nullable=False),
    Column("checkpoint_id", _ORDERED, nullable=False),
    Column("task_id", Text, nullable=False),
    Column("idx", BigInteger, nullable=False),
    Column("written_at", BigInteger, nullable=False),
    _session_column(index=True),
    Column("value", LargeBinary, nullable=False),
    PrimaryKeyConstraint("thread_id", "ns", "checkpoint_id", "task_id", "idx"),
)

terms = Table(
    "tokenmem_terms",
    metadata,
    _session_column(),
    Column("term", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("part", Integer, nullable=False),
    Column("occurrences", Integer, nullable=False),
    Column("unit_length", Integer, nullable=False),
    # whether it is a part of a long answer
    Column("elaborates", Integer, nullable=False),
    PrimaryKeyConstraint("session", "term", "seq", "part"),
    Index("tokenmem_terms_seq", "session", "seq"),
    sqlite_with_rowid=False,
)
"""The inverted index: one row for each term of each part of each message or document."""

vectors = Table(
    "tokenmem_vectors",
    metadata,
    _session_column(),
    Column("model", Text, nullable=False),
    Column("unit", BigInteger, nullable=False),
    Column("vector", LargeBinary, nullable=False),
    PrimaryKeyConstraint("session", "model", "unit"),
)
"""The embedding of each unit (`core.search_units`), float32, little-endian, under its model."""

items = Table(
    "tokenmem_items",
    metadata,
    Column("namespace", _ORDERED, nullable=False),
    Column("key", Text, nullable=False),
    # labels of the notes' owner and session, so that erasing finds them
    Column("owner", Text),
    Column("session", Text),
    Column("created_at", Text, nullable=False),
    Column("updated_at", _ORDERED, nullable=False),
    Column("value", Text, nullable=False),
    PrimaryKeyConstraint("namespace", "key"),
    Index("tokenmem_items_owner", "owner"),
    Index("tokenmem_items_session", "session"),
)
"""One row for each item of a LangGraph store: notes, and whatever an application puts there."""

user_settings = Table(
    "tokenmem_user_settings",
    metadata,
    Column("user_id", Text, primary_key=True),
    Column("settings", Text, nullable=False),
)

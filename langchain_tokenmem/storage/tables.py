"""The ten tables of a database, their creation, and the facts in one of them.

Everything of a session is deleted with its row.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from langchain_tokenmem.errors import ConfigurationError, CorruptStoreError
from langchain_tokenmem.storage.database_url import SYNC_DRIVERS
from langchain_tokenmem.storage.message_json import from_json, to_json

SCHEMA_VERSION = 2

APPLICATION_ID = 0x746F6B6D
"""Marks a SQLite file as ours, in its header (the letters `tokm`)."""

metadata = sa.MetaData()

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_ORDERED = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
"""Compared byte by byte, whatever the server's locale."""


def _session_column(**options: Any) -> sa.Column[int]:
    key = sa.ForeignKey("tokenmem_sessions.id", ondelete="CASCADE")
    return sa.Column("session", _NUMBER, key, nullable=False, **options)


facts = sa.Table(
    "tokenmem_facts",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
"""Facts about the whole database, as JSON: schema version, analyser, collections of vectors."""

sessions = sa.Table(
    "tokenmem_sessions",
    metadata,
    sa.Column("id", _NUMBER, primary_key=True, autoincrement=True),
    # `messages`, or the documents of a session or of a user
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("thread_id", sa.Text, nullable=False),
    sa.Column("user_id", sa.Text),
    sa.Column("first_seq", sa.BigInteger, nullable=False),
    sa.Column("last_seq", sa.BigInteger, nullable=False),
    sa.Column("edits", sa.BigInteger, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("settings", sa.Text),
    sa.Column("state", sa.Text),
    sa.Column("leased_by", sa.Text),
    sa.Column("leased_until", sa.Float),
    sa.Column("active_at", _ORDERED),
    sa.Column("is_pinned", sa.Integer, nullable=False),
    sa.Column("is_kept", sa.Integer, nullable=False),
    # The indexes contain everything below these numbers.
    sa.Column("words_from", sa.BigInteger, nullable=False),
    sa.Column("vectors_from", sa.BigInteger, nullable=False),
    sa.Column("unit_count", sa.BigInteger, nullable=False),
    sa.Column("term_count", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("kind", "name"),
    sa.Index("tokenmem_sessions_thread", "thread_id"),
    sa.Index("tokenmem_sessions_user", "user_id"),
    # In the order of queries, for which PostgreSQL uses no index with NULL first.
    sa.Index("tokenmem_sessions_active", sa.text("active_at DESC")).ddl_if(dialect="sqlite"),
    sa.Index("tokenmem_sessions_active", sa.text("active_at DESC NULLS LAST")).ddl_if(
        dialect="postgresql"
    ),
    sqlite_autoincrement=True,
)
"""One row per conversation: a session, a thread, or a sub-graph of one (`thread_id` is its root).

It has the messages `first_seq` to `last_seq`; `edits` grows whenever one is edited.
"""

messages = sa.Table(
    "tokenmem_messages",
    metadata,
    _session_column(),
    sa.Column("number", sa.BigInteger, nullable=False),
    # place in the transcript; NULL if only a checkpoint has the message
    sa.Column("seq", sa.BigInteger),
    sa.Column("is_shown", sa.Integer, nullable=False),
    sa.Column("message_id", sa.Text),
    sa.Column("has_own_id", sa.Integer, nullable=False),
    # of the content, of every field, and of the stored JSON
    sa.Column("content_hash", sa.Text),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.Column("checksum", sa.BigInteger),
    sa.Column("created_at", sa.Text, nullable=False),
    # Last, so that reading other columns never reads the pages of a long text.
    sa.Column("message", sa.Text),
    sa.Column("exact", sa.LargeBinary),
    sa.PrimaryKeyConstraint("session", "number"),
    sa.Index("tokenmem_messages_seq", "session", "seq"),
    sa.Index("tokenmem_messages_id", "session", "message_id"),
    sa.Index("tokenmem_messages_digest", "session", "digest"),
    sa.Index(
        "tokenmem_messages_hidden",
        "session",
        sqlite_where=sa.text("is_shown = 0"),
        postgresql_where=sa.text("is_shown = 0"),
    ),
)
"""One row per wording of a message; at most one with the same `seq` is shown.

`message` is the JSON that a transcript shows; `exact` is LangGraph's serialization of what JSON
cannot represent in a checkpoint. Documents are rows, too, of a separate session.
"""

checkpoints = sa.Table(
    "tokenmem_checkpoints",
    metadata,
    sa.Column("thread_id", sa.Text, nullable=False),
    sa.Column("ns", sa.Text, nullable=False),
    sa.Column("checkpoint_id", _ORDERED, nullable=False),
    sa.Column("parent_id", sa.Text),
    sa.Column("run_id", sa.Text, index=True),
    _session_column(index=True),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.PrimaryKeyConstraint("thread_id", "ns", "checkpoint_id"),
    sa.Index("tokenmem_checkpoints_parent", "thread_id", "ns", "parent_id"),
)

values = sa.Table(
    "tokenmem_checkpoint_values",
    metadata,
    _session_column(),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.Column("value", sa.LargeBinary, nullable=False),
    sa.PrimaryKeyConstraint("session", "digest"),
)
"""Larger values of channels, by a hash of their content: each is stored once."""

writes = sa.Table(
    "tokenmem_checkpoint_writes",
    metadata,
    sa.Column("thread_id", sa.Text, nullable=False),
    sa.Column("ns", sa.Text, nullable=False),
    sa.Column("checkpoint_id", _ORDERED, nullable=False),
    sa.Column("task_id", sa.Text, nullable=False),
    sa.Column("idx", sa.BigInteger, nullable=False),
    sa.Column("written_at", sa.BigInteger, nullable=False),
    _session_column(index=True),
    sa.Column("value", sa.LargeBinary, nullable=False),
    sa.PrimaryKeyConstraint("thread_id", "ns", "checkpoint_id", "task_id", "idx"),
)

terms = sa.Table(
    "tokenmem_terms",
    metadata,
    _session_column(),
    sa.Column("term", sa.Text, nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("part", sa.Integer, nullable=False),
    sa.Column("occurrences", sa.Integer, nullable=False),
    sa.Column("unit_length", sa.Integer, nullable=False),
    # whether it is part of a long answer
    sa.Column("elaborates", sa.Integer, nullable=False),
    sa.PrimaryKeyConstraint("session", "term", "seq", "part"),
    sa.Index("tokenmem_terms_seq", "session", "seq"),
    sqlite_with_rowid=False,
)
"""The inverted index: one row per term of each part of a message or document."""

vectors = sa.Table(
    "tokenmem_vectors",
    metadata,
    _session_column(),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("unit", sa.BigInteger, nullable=False),
    sa.Column("vector", sa.LargeBinary, nullable=False),
    sa.PrimaryKeyConstraint("session", "model", "unit"),
)
"""The embedding of each unit (`core.search_units`), float32, little-endian, under its model."""

items = sa.Table(
    "tokenmem_items",
    metadata,
    sa.Column("namespace", _ORDERED, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    # labels of a note's owner and session, so that erasing finds it
    sa.Column("owner", sa.Text),
    sa.Column("session", sa.Text),
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("updated_at", _ORDERED, nullable=False),
    sa.Column("value", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("namespace", "key"),
    sa.Index("tokenmem_items_owner", "owner"),
    sa.Index("tokenmem_items_session", "session"),
)
"""One row per item of a LangGraph store: notes, and anything else that an application stores."""

user_settings = sa.Table(
    "tokenmem_user_settings",
    metadata,
    sa.Column("user_id", sa.Text, primary_key=True),
    sa.Column("settings", sa.Text, nullable=False),
)


# --- creating them


def schema_sql(dialect: str) -> str:
    """Return the statements that create the tables and the version in an empty database.

    Args:
        dialect: `postgresql` or `sqlite`.

    Raises:
        ConfigurationError: When it is neither.
    """
    if dialect not in SYNC_DRIVERS:
        raise ConfigurationError(
            f"{dialect} is not supported; use {' or '.join(sorted(SYNC_DRIVERS))}."
        )
    statements: list[str] = []

    def write(statement: Any, *_parameters: object) -> None:
        statements.append(str(statement.compile(dialect=engine.dialect)).strip())

    engine = sa.create_mock_engine(f"{dialect}://", write)
    metadata.create_all(engine, checkfirst=False)
    if dialect == "sqlite":
        statements.insert(0, f"PRAGMA application_id = {APPLICATION_ID}")
    version = f"VALUES ('schema_version', '{SCHEMA_VERSION}')"
    statements.append(f"INSERT INTO {facts.name} (name, value) {version}")
    return "".join(f"{statement};\n\n" for statement in statements)


def foreign_file(path: str) -> CorruptStoreError:
    """Return the error for a file that was not written by this package."""
    return CorruptStoreError(
        f"{path} is not a file of langchain-tokenmem, or its header is damaged. Give the memory "
        f"its own file, or restore a backup."
    )


def set_up(connection: sa.Connection, path: str) -> None:
    """Create the tables in a new database, or check those that are there.

    Raises:
        CorruptStoreError: When the database belongs to another program, is damaged, or has another
            version.
    """
    is_sqlite = connection.dialect.name == "sqlite"
    if not is_sqlite:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(APPLICATION_ID)))
    schema = connection.get_execution_options().get("schema_translate_map", {}).get(None)
    names = set(sa.inspect(connection).get_table_names(schema=schema))
    if is_sqlite:
        owner = connection.exec_driver_sql("PRAGMA application_id").scalar()
        if owner != APPLICATION_ID and (names or owner):
            raise foreign_file(path)
    if facts.name not in names and not names & metadata.tables.keys():
        if is_sqlite:
            connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
        metadata.create_all(connection, checkfirst=False)
        version = {"name": "schema_version", "value": str(SCHEMA_VERSION)}
        connection.execute(insert(facts), version)
        return
    if missing := ", ".join(sorted(metadata.tables.keys() - names)):
        # Creating them again would turn damage into silently empty histories.
        raise CorruptStoreError(f"The database lacks the tables {missing}; restore a backup.")
    own = sa.select(facts.c.value).where(facts.c.name == "schema_version")
    if (found := connection.execute(own).scalar()) != str(SCHEMA_VERSION):
        raise CorruptStoreError(
            f"The database has schema version {found}, this package reads {SCHEMA_VERSION}. Use "
            f"the version of langchain-tokenmem that wrote it, or restore a backup."
        )


# --- facts about the whole database, by name, as plain JSON


def fact(connection: sa.Connection, name: str, *, lock: bool = False) -> Any:
    """Return a fact, or None if it is not set.

    With `lock`, it cannot change until the transaction ends.
    """
    query = sa.select(facts.c.value).where(facts.c.name == name)
    if lock:
        query = query.with_for_update()
    value = connection.execute(query).scalar()
    return None if value is None else from_json(value)


def facts_named(connection: sa.Connection, prefix: str) -> dict[str, Any]:
    """Return the facts whose names begin with a prefix, by name."""
    own = facts.c.name.startswith(prefix, autoescape=True)
    query = sa.select(facts.c.name, facts.c.value).where(own)
    return {name: from_json(value) for name, value in connection.execute(query)}


def set_fact(connection: sa.Connection, name: str, value: Any) -> None:
    """Set a fact; None deletes it."""
    if value is None:
        connection.execute(sa.delete(facts).where(facts.c.name == name))
        return
    new = {"value": to_json(value)[0]}
    upsert = insert(facts).on_conflict_do_update(index_elements=["name"], set_=new)
    connection.execute(upsert, {"name": name, **new})

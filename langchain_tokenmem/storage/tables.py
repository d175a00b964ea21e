"""The ten tables of a database, their creation, and the facts in one of them.

Everything of a session is deleted with its row.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
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
    create_mock_engine,
    delete,
    func,
    inspect,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import insert

from langchain_tokenmem.errors import ConfigurationError, CorruptStoreError
from langchain_tokenmem.storage.database_url import SYNC_DRIVERS
from langchain_tokenmem.storage.message_json import from_json, to_json

SCHEMA_VERSION = 2

APPLICATION_ID = 0x746F6B6D
"""Marks a SQLite file as ours, in its header (the letters `tokm`)."""

metadata = MetaData()

_NUMBER = BigInteger().with_variant(Integer, "sqlite")
_ORDERED = Text().with_variant(Text(collation="C"), "postgresql")
"""Compared byte by byte, whatever the server's locale."""


def _session_column(**options: Any) -> Column[int]:
    key = ForeignKey("tokenmem_sessions.id", ondelete="CASCADE")
    return Column("session", _NUMBER, key, nullable=False, **options)


facts = Table(
    "tokenmem_facts",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
"""Facts about the whole database, as JSON: schema version, analyser, collections of vectors."""

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
    # The indexes contain everything below these numbers.
    Column("words_from", BigInteger, nullable=False),
    Column("vectors_from", BigInteger, nullable=False),
    Column("unit_count", BigInteger, nullable=False),
    Column("term_count", BigInteger, nullable=False),
    UniqueConstraint("kind", "name"),
    Index("tokenmem_sessions_thread", "thread_id"),
    Index("tokenmem_sessions_user", "user_id"),
    # In the order of queries, for which PostgreSQL uses no index with NULL first.
    Index("tokenmem_sessions_active", text("active_at DESC")).ddl_if(dialect="sqlite"),
    Index("tokenmem_sessions_active", text("active_at DESC NULLS LAST")).ddl_if(
        dialect="postgresql"
    ),
    sqlite_autoincrement=True,
)
"""One row per conversation: a session, a thread, or a sub-graph of one (`thread_id` is its root).

It has the messages `first_seq` to `last_seq`; `edits` grows whenever one is edited.
"""

messages = Table(
    "tokenmem_messages",
    metadata,
    _session_column(),
    Column("number", BigInteger, nullable=False),
    # place in the transcript; NULL if only a checkpoint has the message
    Column("seq", BigInteger),
    Column("is_shown", Integer, nullable=False),
    Column("message_id", Text),
    Column("has_own_id", Integer, nullable=False),
    # of the content, of every field, and of the stored JSON
    Column("content_hash", Text),
    Column("digest", LargeBinary, nullable=False),
    Column("checksum", BigInteger),
    Column("created_at", Text, nullable=False),
    # Last, so that reading other columns never reads the pages of a long text.
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
"""One row per wording of a message; at most one with the same `seq` is shown.

`message` is the JSON that a transcript shows; `exact` is LangGraph's serialization of what JSON
cannot represent in a checkpoint. Documents are rows, too, of a separate session.
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
"""Larger values of channels, by a hash of their content: each is stored once."""

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
    # whether it is part of a long answer
    Column("elaborates", Integer, nullable=False),
    PrimaryKeyConstraint("session", "term", "seq", "part"),
    Index("tokenmem_terms_seq", "session", "seq"),
    sqlite_with_rowid=False,
)
"""The inverted index: one row per term of each part of a message or document."""

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
    # labels of a note's owner and session, so that erasing finds it
    Column("owner", Text),
    Column("session", Text),
    Column("created_at", Text, nullable=False),
    Column("updated_at", _ORDERED, nullable=False),
    Column("value", Text, nullable=False),
    PrimaryKeyConstraint("namespace", "key"),
    Index("tokenmem_items_owner", "owner"),
    Index("tokenmem_items_session", "session"),
)
"""One row per item of a LangGraph store: notes, and anything else that an application stores."""

user_settings = Table(
    "tokenmem_user_settings",
    metadata,
    Column("user_id", Text, primary_key=True),
    Column("settings", Text, nullable=False),
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

    engine = create_mock_engine(f"{dialect}://", write)
    metadata.create_all(engine, checkfirst=False)
    if dialect == "sqlite":
        statements.insert(0, f"PRAGMA application_id = {APPLICATION_ID}")
    version = f"VALUES ('schema_version', '{SCHEMA_VERSION}')"
    statements.append(f"INSERT INTO {facts.name} (name, value) {version}")
    return "".join(f"{statement};\n\n" for statement in statements)


def set_up(connection: Connection, path: str) -> None:
    """Create the tables in a new database, or check those that are there.

    Raises:
        CorruptStoreError: When the database belongs to another program, is damaged, or has another
            version.
    """
    is_sqlite = connection.dialect.name == "sqlite"
    if not is_sqlite:
        connection.execute(select(func.pg_advisory_xact_lock(APPLICATION_ID)))
    schema = connection.get_execution_options().get("schema_translate_map", {}).get(None)
    names = set(inspect(connection).get_table_names(schema=schema))
    if is_sqlite:
        owner = connection.exec_driver_sql("PRAGMA application_id").scalar()
        if owner != APPLICATION_ID and (names or owner):
            raise CorruptStoreError(
                f"{path} is not a file of langchain-tokenmem, or its header is damaged. Give the "
                f"memory a file of its own, or restore a backup."
            )
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
    own = select(facts.c.value).where(facts.c.name == "schema_version")
    if (found := connection.execute(own).scalar()) != str(SCHEMA_VERSION):
        raise CorruptStoreError(
            f"The database has schema version {found}, this package reads {SCHEMA_VERSION}. Use "
            f"the version of langchain-tokenmem that wrote it, or restore a backup."
        )


# --- facts about the whole database, by name, as plain JSON


def fact(connection: Connection, name: str, *, lock: bool = False) -> Any:
    """Return a fact, or None if it is not set.

    With `lock`, it cannot change until the transaction ends.
    """
    query = select(facts.c.value).where(facts.c.name == name)
    if lock:
        query = query.with_for_update()
    value = connection.execute(query).scalar()
    return None if value is None else from_json(value)


def facts_named(connection: Connection, prefix: str) -> dict[str, Any]:
    """Return the facts whose names begin with a prefix, by name."""
    own = facts.c.name.startswith(prefix, autoescape=True)
    query = select(facts.c.name, facts.c.value).where(own)
    return {name: from_json(value) for name, value in connection.execute(query)}


def set_fact(connection: Connection, name: str, value: Any) -> None:
    """Set a fact; None deletes it."""
    if value is None:
        connection.execute(delete(facts).where(facts.c.name == name))
        return
    new = {"value": to_json(value)[0]}
    upsert = insert(facts).on_conflict_do_update(index_elements=["name"], set_=new)
    connection.execute(upsert, {"name": name, **new})

"""The tables of recall: all of them can be made anew from the transcript but the documents."""

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

owners = Table(
    "tokenmem_owners",
    metadata,
    Column("owner", Integer, primary_key=True, autoincrement=True),
    Column("owner_key", Text, nullable=False),
    UniqueConstraint("owner_key"),
    sqlite_autoincrement=True,
)
"""A small number for each user, and for each session that has none; no number is used twice."""

shelves = Table(
    "tokenmem_shelves",
    metadata,
    Column("shelf", Integer, primary_key=True, autoincrement=True),
    Column("shelf_key", Text, nullable=False),
    Column("owner", Integer, nullable=False),
    Column("indexed_to", BigInteger, nullable=False),
    Column("units", BigInteger, nullable=False),
    Column("length", BigInteger, nullable=False),
    UniqueConstraint("shelf_key"),
    Index("tokenmem_shelves_owner", "owner"),
    sqlite_autoincrement=True,
)
"""Messages of a session, documents of a session, documents of a user: one shelf each.

`indexed_to` is the last number that the lexical index has, `units` and `length` are its totals.
"""

terms = Table(
    "tokenmem_terms",
    metadata,
    Column("owner", Integer, nullable=False),
    Column("term", Text, nullable=False),
    Column("unit", BigInteger, nullable=False),
    Column("tf", Integer, nullable=False),
    Column("length", Integer, nullable=False),
    PrimaryKeyConstraint("owner", "term", "unit"),
    sqlite_with_rowid=False,
)
"""The inverted index: one row for each term of each unit (`core.units` packs the number)."""

outbox = Table(
    "tokenmem_outbox",
    metadata,
    Column("sink", Text, nullable=False),
    Column("shelf_key", Text, nullable=False),
    Column("from_seq", BigInteger, nullable=False),
    PrimaryKeyConstraint("sink", "shelf_key"),
)
"""What a sink (`lexical`, `vectors`) has not taken in yet: everything of a shelf from a number on.

Written in the transaction of the append, deleted in the one that stored the last entry.
"""

vectors = Table(
    "tokenmem_vectors",
    metadata,
    Column("shelf", Integer, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("unit", BigInteger, nullable=False),
    Column("checksum", Text, nullable=False),
    Column("vector", LargeBinary, nullable=False),
    PrimaryKeyConstraint("shelf", "fingerprint", "unit"),
)
"""The embedding of each unit, float32, little-endian, under the fingerprint of its model."""

documents = Table(
    "tokenmem_documents",
    metadata,
    Column("shelf_key", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("document_key", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("checksum", Text, nullable=False),
    Column("metadata", Text, nullable=False),
    Column("body", Text, nullable=False),
    PrimaryKeyConstraint("shelf_key", "seq"),
    UniqueConstraint("shelf_key", "document_key"),
)
"""Documents; one that is given again takes a new number, so that every index notices."""

index_facts = Table(
    "tokenmem_index_facts",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
"""What an index was made with: analyser, fingerprints of collections, progress of a rebuild."""

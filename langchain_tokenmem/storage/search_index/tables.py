"""Tables of the search index; all but the documents can be made anew from the transcript."""

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
    "tokenmem_index_owners",
    metadata,
    Column("owner_id", Integer, primary_key=True, autoincrement=True),
    Column("owner_key", Text, nullable=False),
    UniqueConstraint("owner_key"),
    sqlite_autoincrement=True,
)
"""A small number for each user, and for each session that has none; no number is used twice."""

partitions = Table(
    "tokenmem_index_partitions",
    metadata,
    Column("partition_id", Integer, primary_key=True, autoincrement=True),
    Column("partition_key", Text, nullable=False),
    Column("owner_id", Integer, nullable=False),
    Column("indexed_to_seq", BigInteger, nullable=False),
    Column("unit_count", BigInteger, nullable=False),
    Column("term_count", BigInteger, nullable=False),
    UniqueConstraint("partition_key"),
    Index("tokenmem_index_partitions_owner", "owner_id"),
    sqlite_autoincrement=True,
)
"""Messages of a session, documents of a session, documents of a user: one partition each.

`indexed_to_seq` is the last message number that the lexical index has, `unit_count` and
`term_count` are its totals.
"""

terms = Table(
    "tokenmem_terms",
    metadata,
    Column("owner_id", Integer, nullable=False),
    Column("term", Text, nullable=False),
    Column("unit", BigInteger, nullable=False),
    Column("occurrences", Integer, nullable=False),
    Column("unit_length", Integer, nullable=False),
    PrimaryKeyConstraint("owner_id", "term", "unit"),
    sqlite_with_rowid=False,
)
"""The inverted index: one row for each term of each unit.

`core.search_units` packs the number of a unit: `unit >> 36` is the partition,
`(unit >> 12) & 16777215` the message number, `unit & 4095` the part.
"""

outbox = Table(
    "tokenmem_outbox",
    metadata,
    Column("index_name", Text, nullable=False),
    Column("partition_key", Text, nullable=False),
    Column("from_seq", BigInteger, nullable=False),
    PrimaryKeyConstraint("index_name", "partition_key"),
)
"""Work that an index (`lexical`, `vectors`) has to do: a partition from a message number on.

Written in the transaction of the append, deleted in the one that stored the last entry.
"""

vectors = Table(
    "tokenmem_vectors",
    metadata,
    Column("partition_id", Integer, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("unit", BigInteger, nullable=False),
    Column("checksum", Text, nullable=False),
    Column("vector", LargeBinary, nullable=False),
    PrimaryKeyConstraint("partition_id", "fingerprint", "unit"),
)
"""The embedding of each unit, float32, little-endian, under the fingerprint of its model."""

documents = Table(
    "tokenmem_documents",
    metadata,
    Column("partition_key", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("document_key", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("checksum", Text, nullable=False),
    Column("metadata", Text, nullable=False),
    Column("body", Text, nullable=False),
    PrimaryKeyConstraint("partition_key", "seq"),
    UniqueConstraint("partition_key", "document_key"),
)
"""Documents; one that is given again takes a new number, so that every index notices."""

index_properties = Table(
    "tokenmem_index_properties",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
"""The analyser that made the lexical index, and the collections of vectors, as JSON."""

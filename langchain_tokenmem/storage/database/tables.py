"""The shared `MetaData` of all tables, and the table of facts about the database itself."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, MetaData, Table, Text

metadata = MetaData()

facts = Table(
    "tokenmem_facts",
    metadata,
    Column("name", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
)
"""`schema_version`; in a SQLite file also `shape`, a digest of the table definitions.

Name and columns are the same in every version of the schema: they tell which one it is.
"""

"""The table of items."""

from __future__ import annotations

from sqlalchemy import Column, Float, Index, PrimaryKeyConstraint, Table, Text

from langchain_tokenmem.storage.database.tables import metadata

_ORDERED = Text().with_variant(Text(collation="C"), "postgresql")
"""Compared byte by byte, whatever language the server speaks: a prefix is a range of keys."""

items = Table(
    "tokenmem_items",
    metadata,
    Column("namespace_key", _ORDERED, nullable=False),
    Column("item_key", Text, nullable=False),
    Column("owner_label", Text),
    Column("session_label", Text),
    Column("created_at", Text, nullable=False),
    Column("updated_at", _ORDERED, nullable=False),
    Column("ttl_minutes", Float),
    Column("expires_at", _ORDERED),
    Column("namespace", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("checksum", Text, nullable=False),
    # Last, so that a look at the other columns never reads the pages of a long text.
    Column("value", Text, nullable=False),
    PrimaryKeyConstraint("namespace_key", "item_key"),
    Index("tokenmem_items_owner", "owner_label"),
    Index("tokenmem_items_session", "session_label"),
    Index("tokenmem_items_expiry", "expires_at"),
)
"""One row for each item of a `BaseStore`: notes, and whatever else an application puts there.

`owner_label` and `session_label` are read from the namespace of notes (`core.note_namespaces`), so
that `erase` finds them.
"""

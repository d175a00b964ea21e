"""Notes that are kept on purpose, and stores for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_tokenmem._lazy import loader

if TYPE_CHECKING:
    from langchain_tokenmem.notes.note import Note
    from langchain_tokenmem.notes.stores.json_store import JsonStore
    from langchain_tokenmem.notes.stores.sql_store import SqlStore

__all__ = [
    "JsonStore",
    "Note",
    "SqlStore",
]

__getattr__, __dir__ = loader(
    __name__,
    {
        "JsonStore": "notes.stores.json_store",
        "Note": "notes.note",
        "SqlStore": "notes.stores.sql_store",
    },
)

"""Notes that are kept deliberately, and stores for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_tokenmem._lazy import loader

if TYPE_CHECKING:
    from langchain_tokenmem.notes.json_store import JsonStore
    from langchain_tokenmem.notes.note import Note
    from langchain_tokenmem.notes.sql_store import SqlStore

__all__ = [
    "JsonStore",
    "Note",
    "SqlStore",
]

__getattr__, __dir__ = loader(
    __name__,
    {
        "JsonStore": "notes.json_store",
        "Note": "notes.note",
        "SqlStore": "notes.sql_store",
    },
)

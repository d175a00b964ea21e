"""Stores for notes."""

from __future__ import annotations

from langgraph.store.base import BaseStore, Item

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.notes import JsonStore, SqlStore


def stores(transcripts: TranscriptStore) -> list[BaseStore]:
    """Make both."""
    return [SqlStore(transcripts), JsonStore("notes", debounce_s=1)]


async def kept(store: JsonStore) -> dict[str, int]:
    """Put, get and erase."""
    await store.aput(("users", "ann"), "tea", {"likes": "green tea"})
    item: Item | None = await store.aget(("users", "ann"), "tea")
    await store.aflush()
    return {} if item is None else await store.aerase(("users", "ann"))

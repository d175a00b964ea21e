"""Reducers of the channels in which graphs keep the memory."""

from __future__ import annotations

from langchain_tokenmem.state import MemoryState


def merge_memories(
    old: dict[str, MemoryState] | None, new: dict[str, MemoryState] | None
) -> dict[str, MemoryState]:
    """Return the memories of both, by name; the newer one where both have it.

    So several memories may write in one step without taking the others' place.
    """
    return {**(old or {}), **(new or {})}


def merge_orders(old: dict[str, str] | None, new: dict[str, str] | None) -> dict[str, str]:
    """Return the orders of both, by name; the newer one where both have one."""
    return {**(old or {}), **(new or {})}

"""The reducer of the channels in which graphs keep the memory."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def merge_by_name(old: dict[str, T] | None, new: dict[str, T] | None) -> dict[str, T]:
    """Return the entries of both, by the memory's name; the newer one where both have it.

    So several memories may write in one step without taking the others' place.
    """
    return {**(old or {}), **(new or {})}

"""List of the entries that a vector store was given: most cannot list or count their own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby

from langchain_tokenmem.core.search_units import unpack_unit
from langchain_tokenmem.storage.search_index import SearchIndex

_PREFIX = "vector_store:"

_PAGE = 512
"""Messages of a page, so that a long session is not written whole with each of its batches."""

Page = dict[str, str]
"""Digest of an entry's words by its unit; empty for one that may not have arrived."""


class EntryList:
    """Entries of one collection, as properties of the search index: numbers and digests.

    Args:
        store: Where the list is kept.
        name: Name of the collection.
    """

    def __init__(self, store: SearchIndex, name: str) -> None:
        self._store = store
        self._name = f"{_PREFIX}{name}"

    def is_there(self) -> bool:
        """Return whether the list was begun."""
        return self._store.get_property(self._name) is not None

    def begin(self) -> None:
        """Begin the list."""
        self._store.set_property(self._name, {})

    def end(self) -> None:
        """Delete the list."""
        self._store.delete_properties(self._name)

    def names(self, prefix: str) -> list[str]:
        """Return the collections whose names have a prefix and that have a list."""
        found = self._store.properties(f"{_PREFIX}{prefix}")
        return sorted({key.removeprefix(_PREFIX).partition(":")[0] for key in found})

    def units(self, partition: int | None = None) -> list[int]:
        """Return the units of all entries, or of those of one partition, in order."""
        own = f"{self._name}:" if partition is None else f"{self._name}:{partition}:"
        pages = self._store.properties(own).values()
        return sorted(int(unit) for page in pages for unit in page)

    def lacking(self, texts: Mapping[int, str]) -> tuple[dict[int, str], list[int]]:
        """Return the entries that are missing or have other words, and the units of the latter."""
        listed: Page = {}
        for key, _ in self._by_page(texts):
            listed |= self._store.get_property(key) or {}
        new = {unit: text for unit, text in texts.items() if listed.get(str(unit)) != _digest(text)}
        return new, [unit for unit in new if str(unit) in listed]

    def add(self, texts: Mapping[int, str], *, are_there: bool) -> None:
        """List entries, before they are stored and again when they are there."""
        for key, units in self._by_page(texts):
            page = {str(unit): _digest(texts[unit]) if are_there else "" for unit in units}
            self._store.update_property(key, _merging(page))

    def remove(self, units: Sequence[int]) -> None:
        """Take entries off the list."""
        for key, some in self._by_page(units):
            self._store.update_property(key, _without(some))

    def _by_page(self, units: Iterable[int]) -> list[tuple[str, list[int]]]:
        return [(key, list(some)) for key, some in groupby(sorted(units), self._page_of)]

    def _page_of(self, unit: int) -> str:
        partition, seq, _ = unpack_unit(unit)
        return f"{self._name}:{partition}:{seq // _PAGE}"


def _merging(new: Page) -> Callable[[Page | None], Page | None]:
    return lambda page: {**(page or {}), **new}


def _without(units: Sequence[int]) -> Callable[[Page | None], Page | None]:
    gone = {str(unit) for unit in units}
    return lambda page: (
        {unit: one for unit, one in (page or {}).items() if unit not in gone} or None
    )


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()

"""How far the indexing is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tqdm import tqdm

from langchain_tokenmem.core.search_units import DOCUMENT_STEP
from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.recall.interfaces import IndexStore, Pending


def progress_bar(store: IndexStore, owed: Sequence[Pending], *, is_shown: bool) -> Any:
    """Return a bar over the messages and documents that shelves owe; a mute one when not shown."""
    if not is_shown:
        return tqdm(disable=True)
    total = sum(_owed_by(store, shelf) for shelf in owed)
    return tqdm(desc="Indexing", unit="message", total=total)


def _owed_by(store: IndexStore, shelf: Pending) -> int:
    try:
        _, last = store.sources_from(shelf.shelf_key, shelf.from_seq, 1)
    except CorruptStoreError:
        return 0  # it is said when it is taken in
    count = max(0, last - shelf.from_seq + 1)
    is_session = shelf.shelf_key[0] in "=#"
    return count if is_session else -(-count // DOCUMENT_STEP)

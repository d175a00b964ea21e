"""Reading of all notes of a level, in pages; again only where the store holds others since."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from langgraph.store.base import BaseStore, Item, SearchOp

from langchain_tokenmem.notes.known_notes import KnownNote, KnownNotes, ReadLevel
from langchain_tokenmem.notes.lifetime import SessionLifetime, has_end, is_expired
from langchain_tokenmem.notes.note import NoteLevel
from langchain_tokenmem.notes.scope import Namespace
from langchain_tokenmem.notes.store_work import StoreWork
from langchain_tokenmem.notes.stores.item_store import ChangedItemsOp, ItemStore

_PAGE = 1_024
"""Items that a store is asked for at a time; its own default is ten."""

_ALL = 1_000_000


@dataclass(frozen=True)
class LevelReader:
    """Reads the notes of a user's levels.

    Attributes:
        known: Reads notes; those that were read before are known.
        user_id: Whose notes; what is another's is left out, whatever a store brings.
        store: Where they are.
        now: Gives the time, in UTC.
        lifetime: How long notes of a session live in the store.
    """

    known: KnownNotes
    user_id: str | None
    store: BaseStore
    now: Callable[[], datetime]
    lifetime: SessionLifetime

    def notes(self, namespaces: Mapping[NoteLevel, Namespace]) -> StoreWork[list[KnownNote]]:
        """Return all notes of some levels, by their namespaces."""
        if not isinstance(self.store, ItemStore):
            return (yield from self._in_pages(namespaces))
        known = {level: self.known.level(self.store, where) for level, where in namespaces.items()}
        before = {level: one.read for level, one in known.items()}
        answers = yield [
            ChangedItemsOp(where, before[level].versions) for level, where in namespaces.items()
        ]
        found: list[KnownNote] = []
        for (level, where), answer in zip(namespaces.items(), answers, strict=True):
            if answer is None:  # some can expire
                (page,) = yield [self._search(where, _ALL)]
                found += self._of_page(page, level, where)
            else:
                known[level].read = now = self._after(before[level], answer, level, where)
                found += now.notes
        return found

    def _after(
        self, before: ReadLevel, answer: Any, level: NoteLevel, namespace: Namespace
    ) -> ReadLevel:
        """Return a level with what has changed; what the notebook itself lets expire stays new."""
        versions, changed = answer
        read = {name: self.of_item(item, level, namespace) for name, item in changed.items()}
        ending = {name for name, item in changed.items() if has_end(item.value)}
        lasting = {n: v for n, v in versions.items() if n not in ending} if ending else versions
        return before.after(lasting, read)

    def _in_pages(self, namespaces: Mapping[NoteLevel, Namespace]) -> StoreWork[list[KnownNote]]:
        """Return all notes of some levels of any store."""
        found: dict[tuple[NoteLevel, str], KnownNote] = {}
        unread: dict[NoteLevel, int] = dict.fromkeys(namespaces, 0)
        while unread:
            pages = yield [
                self._search(namespaces[level], _PAGE, offset) for level, offset in unread.items()
            ]
            unread_before, unread = unread, {}
            for (level, offset), page in zip(unread_before.items(), pages, strict=True):
                for known in self._of_page(page, level, namespaces[level]):
                    found[level, known.note.item_key] = known
                if page:  # a store may have smaller pages than it is asked for
                    unread[level] = offset + len(page)
        return list(found.values())

    def _search(self, namespace: Namespace, limit: int, offset: int = 0) -> SearchOp:
        refreshes = self.lifetime.refreshes
        return SearchOp(namespace, limit=limit, offset=offset, refresh_ttl=refreshes)

    def _of_page(
        self, page: Iterable[Item], level: NoteLevel, namespace: Namespace
    ) -> Iterable[KnownNote]:
        read = (self.of_item(item, level, namespace) for item in page)
        return (known for known in read if known is not None)

    def of_item(self, item: Item, level: NoteLevel, namespace: Namespace) -> KnownNote | None:
        """Return the note of an item; None for one of another scope, whatever a store brings."""
        if tuple(item.namespace) != namespace or is_expired(item.value, self.now):
            return None
        return self.known.read(item, self.user_id, level)

"""Erasing of notes in a `BaseStore`, checked by reading back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from langgraph.store.base import BaseStore, ListNamespacesOp, MatchCondition, Op, PutOp, SearchOp

from langchain_tokenmem.core.note_namespaces import (
    namespace_label,
    notes_of_session,
    notes_of_user,
    session_label,
)
from langchain_tokenmem.errors import ScopeError, StoreError
from langchain_tokenmem.notes.scope import Namespace
from langchain_tokenmem.notes.store_work import StoreWork
from langchain_tokenmem.notes.stores.item_store import EraseOp, ItemStore

_PAGE = 100
_ANY = "*"


def erase_notes(
    user_id: str | None,
    session_id: str | None,
    store: BaseStore,
    sessions: Collection[str] = (),
) -> StoreWork[int]:
    """Delete every note of a user, or of a session, and return how many there were.

    Args:
        user_id: The user.
        session_id: The session; without it all notes of the user are meant.
        store: Where they are. One of this package deletes them for good at once, where a put may
            wait to be written, and damaged files that were set aside, too.
        sessions: Further sessions whose notes go: those of a thread's sub-graphs, or of the user,
            where a note names no user.

    Raises:
        ScopeError: When neither is given.
        StoreError: When the store still brings one of them afterwards.
    """
    for name, what in ((user_id, "user_id"), (session_id, "session_id")):
        if name is not None and (not isinstance(name, str) or not name.strip()):
            raise ScopeError(f"{what} is {name!r}; it is a text that is not blank.")
    if user_id is None and session_id is None:
        raise ScopeError("Name the session_id or the user_id whose notes are to be erased.")
    path, is_own = _path(user_id, session_id), isinstance(store, ItemStore)
    namespaces = [path] if is_own and _ANY not in path else (yield from _namespaces(path))
    if sessions:
        found = yield from _namespaces_of(sessions, None if session_id is None else path)
        namespaces = list(dict.fromkeys([*namespaces, *found]))
    if is_own:
        counts: list[int] = yield [EraseOp(namespace) for namespace in namespaces]
        return sum(counts)
    count = 0
    for namespace in namespaces:
        keys = yield from _keys(namespace)
        for start in range(0, len(keys), _PAGE):
            deletions: list[Op] = [PutOp(namespace, key, None) for key in keys[start:][:_PAGE]]
            yield deletions
        count += len(keys)
        left = yield from _keys(namespace)
        if left:
            raise StoreError(
                f"The store still holds {len(left)} of {len(keys)} notes after it was asked to "
                f"delete them. Erase again, or look at the store itself: namespace {namespace}."
            )
    return count


def _path(user_id: str | None, session_id: str | None) -> Namespace:
    """Return the path of the namespaces; a session is the same one whoever its user is."""
    if session_id is None:
        return notes_of_user(user_id)
    path = notes_of_session(user_id, session_id)
    own = len(notes_of_user(None)) - 1
    return path if user_id is not None else (*path[:own], _ANY, *path[own + 1 :])


def _namespaces(path: Namespace) -> StoreWork[list[Namespace]]:
    """Return the namespaces that begin with a path; all of them are named before one is emptied."""
    condition = MatchCondition(match_type="prefix", path=path)
    found = yield from _pages(lambda offset: ListNamespacesOp((condition,), None, _PAGE, offset))
    return list(dict.fromkeys(tuple(each) for each in found if _begins(each, path)))


def _namespaces_of(sessions: Collection[str], path: Namespace | None) -> StoreWork[list[Namespace]]:
    """Return the namespaces of the notes of sessions: of the owner of a path, else of nobody."""
    *beginning, _ = path or notes_of_session(None, "")
    found = yield from _namespaces(tuple(beginning))
    labels = set(map(namespace_label, sessions))
    return [namespace for namespace in found if session_label(namespace) in labels]


def _begins(namespace: Namespace, path: Namespace) -> bool:
    """Return whether a namespace begins with a path; some stores compare the texts only."""
    pairs: Iterator[tuple[str, str]] = zip(namespace, path, strict=False)
    return len(namespace) >= len(path) and all(wanted in {_ANY, label} for label, wanted in pairs)


def _keys(namespace: Namespace) -> StoreWork[list[str]]:
    """Return the keys of all items of a namespace."""
    found = yield from _pages(lambda offset: SearchOp(namespace, None, _PAGE * 10, offset))
    return list(dict.fromkeys(item.key for item in found if tuple(item.namespace) == namespace))


def _pages(operation: Callable[[int], Op]) -> StoreWork[list[Any]]:
    """Return what an operation gives, asked from each offset on until there is no more."""
    found: list[Any] = []
    while True:
        (page,) = yield [operation(len(found))]
        if not page:
            return found
        found += page

"""Erases and redacts notes in a `BaseStore`, and checks this by reading back."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple, cast

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
)

from langchain_tokenmem.core.stored_items import Namespace
from langchain_tokenmem.core.thread_names import (
    NOTES,
    namespace_label,
    notes_of_session,
    notes_of_user,
    session_label,
)
from langchain_tokenmem.errors import ScopeError, StoreError
from langchain_tokenmem.notes.item_store import ItemStore
from langchain_tokenmem.notes.scoped_notes import check_scope, items_in
from langchain_tokenmem.storage.redactor import Redactor

_PAGE = 100
_ANY = "*"


def erase_notes(
    store: BaseStore,
    user_id: str | None,
    session_id: str | None,
    sessions: Collection[str] = (),
) -> int:
    """Delete every note of a user, or of a session, and return how many there were.

    Args:
        store: Where they are. A store of this package deletes them for good at once, including
            pending puts and damaged files that were set aside.
        user_id: The user.
        session_id: The session; without it all notes of the user are deleted.
        sessions: Further sessions whose notes are deleted: those of a thread's sub-graphs, or those
            of the user for notes that name no user.

    Raises:
        ScopeError: When neither is given.
        StoreError: When the store still returns one of them afterwards.
    """
    check_scope(user_id, session_id)
    if user_id is None and session_id is None:
        raise ScopeError("Name the session_id or the user_id whose notes are to be erased.")
    path = _path(user_id, session_id)
    is_whole = isinstance(store, ItemStore) and _ANY not in path
    namespaces = [path] if is_whole else _namespaces(store, path)
    if sessions:
        namespaces += _namespaces_of(store, sessions, None if session_id is None else path)
    namespaces = [*dict.fromkeys(namespaces)]
    if isinstance(store, ItemStore):
        return sum(store.erase(namespace)["items"] for namespace in namespaces)
    return sum(_emptied(store, namespace) for namespace in namespaces)


class RedactedNotes(NamedTuple):
    """What a redaction found in a store of notes.

    Attributes:
        notes: How many notes contained the words.
        keys: How many keys of notes contain them, and stay.
        damaged_files: How many damaged files contain them, and stay.
    """

    notes: int
    keys: int
    damaged_files: int


def redact_notes(
    store: BaseStore,
    redactor: Redactor,
    user_id: str | None,
    session_id: str | None,
    sessions: Collection[str] = (),
    *,
    dry_run: bool = False,
) -> RedactedNotes:
    """Remove words from the notes of a user or a session, or from all notes.

    Args:
        store: Where they are; files of this package are written when this returns.
        redactor: Removes the words.
        user_id: The user.
        session_id: The session; without either id all notes are searched.
        sessions: Further sessions, as in `erase_notes`.
        dry_run: Whether they are only counted.

    Raises:
        StoreError: When the store still contains the words afterwards.
    """
    whole = user_id is None and session_id is None
    path = NOTES if whole else _path(user_id, session_id)
    namespaces = _namespaces(store, path)
    if sessions and not whole:
        namespaces += _namespaces_of(store, sessions, None if session_id is None else path)
    count = named = 0
    for namespace in dict.fromkeys(namespaces):
        for item in _items(store, namespace):
            before = redactor.found
            named += redactor.holds_name(item.value, item.key, *item.namespace)
            value = redactor.item(item.value)
            if redactor.found == before:
                continue
            count += 1
            if dry_run:
                continue
            store.batch([PutOp(namespace, item.key, value)])
            (kept,) = store.batch([GetOp(namespace, item.key)])
            seen = redactor.found
            if isinstance(kept, Item) and redactor.item(kept.value) and redactor.found > seen:
                raise StoreError(
                    f"The store still has the words in note {item.key!r} of {namespace} after it "
                    f"was stored without them. Redact again, or check the store itself."
                )
    if not isinstance(store, ItemStore):
        return RedactedNotes(count, named, 0)
    if not dry_run:
        store.flush()
    owner = path if _ANY not in path else ()
    damaged = sum(map(redactor.holds, store.damaged_texts(owner)))
    return RedactedNotes(count, named, damaged)


def _emptied(store: BaseStore, namespace: Namespace) -> int:
    """Delete the items of a namespace; return how many there were."""
    keys = _keys(store, namespace)
    for start in range(0, len(keys), _PAGE):
        store.batch([PutOp(namespace, key, None) for key in keys[start:][:_PAGE]])
    if left := _keys(store, namespace):
        raise StoreError(
            f"The store still holds {len(left)} of {len(keys)} notes after it was asked to "
            f"delete them. Erase again, or check the store itself: namespace {namespace}."
        )
    return len(keys)


def _path(user_id: str | None, session_id: str | None) -> Namespace:
    """Return the path of the namespaces; a session has the same notes whoever its user is."""
    if session_id is None:
        return notes_of_user(user_id)
    path = notes_of_session(user_id, session_id)
    own = len(notes_of_user(None)) - 1
    return path if user_id is not None else (*path[:own], _ANY, *path[own + 1 :])


def _namespaces(store: BaseStore, path: Namespace) -> list[Namespace]:
    """Return the namespaces that begin with a path; all are listed before any is emptied."""
    begins = (MatchCondition(match_type="prefix", path=path),)
    found: list[Any] = []
    while page := store.batch([ListNamespacesOp(begins, None, _PAGE, len(found))])[0]:
        found += cast("list[Any]", page)
    return list(dict.fromkeys(tuple(each) for each in found if _begins(each, path)))


def _namespaces_of(
    store: BaseStore, sessions: Collection[str], path: Namespace | None
) -> list[Namespace]:
    """Return the namespaces of sessions' notes: of the owner in a path, else of no user."""
    *beginning, _ = path or notes_of_session(None, "")
    labels = set(map(namespace_label, sessions))
    found = _namespaces(store, tuple(beginning))
    return [namespace for namespace in found if session_label(namespace) in labels]


def _begins(namespace: Namespace, path: Namespace) -> bool:
    """Return whether a namespace begins with a path; some stores compare only the text."""
    pairs: Iterator[tuple[str, str]] = zip(namespace, path, strict=False)
    return len(namespace) >= len(path) and all(wanted in {_ANY, label} for label, wanted in pairs)


def _keys(store: BaseStore, namespace: Namespace) -> list[str]:
    """Return the keys of all items of a namespace."""
    return list(dict.fromkeys(item.key for item in _items(store, namespace)))


def _items(store: BaseStore, namespace: Namespace) -> list[Item]:
    (found,) = items_in(store, store.batch, [namespace])
    return [item for item in found if tuple(item.namespace) == namespace]

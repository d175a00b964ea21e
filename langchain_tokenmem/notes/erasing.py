"""Erases and redacts notes in a `BaseStore`, and checks this by reading back."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, cast

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
    NO_USER,
    NOTES,
    namespace_label,
    notes_of_session,
    notes_of_user,
    session_label,
)
from langchain_tokenmem.errors import ScopeError, StoreError
from langchain_tokenmem.notes.item_store import ItemStore
from langchain_tokenmem.notes.scoped_notes import check_scope, items_in
from langchain_tokenmem.storage.redaction import RemovalReceipt
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
    path, namespaces = _scope(store, user_id, session_id, sessions)
    if not isinstance(store, ItemStore):
        return sum(_emptied(store, namespace) for namespace in namespaces)
    if _ANY not in path:  # at once, with the damaged files of the same owner
        namespaces = [path, *(one for one in namespaces if not _begins(one, path))]
    return sum(store.erase(namespace)["items"] for namespace in namespaces)


def redact_notes(
    store: BaseStore,
    redactor: Redactor,
    user_id: str | None,
    session_id: str | None,
    sessions: Collection[str] = (),
    *,
    dry_run: bool = False,
) -> RemovalReceipt:
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
    path, namespaces = _scope(store, user_id, session_id, sessions)
    count = named = 0
    for namespace in namespaces:
        for item in _items(store, namespace):
            named += redactor.holds_name(item.value, item.key, *item.namespace)
            value = redactor.item(item.value)
            if value is item.value:
                continue
            count += 1
            if dry_run:
                continue
            store.batch([PutOp(namespace, item.key, value)])
            (kept,) = store.batch([GetOp(namespace, item.key)])
            if isinstance(kept, Item) and redactor.item(kept.value) is not kept.value:
                raise StoreError(
                    f"The store still has the words in note {item.key!r} of {namespace} after it "
                    f"was stored without them. Redact again, or check the store itself."
                )
    unreached = [f"{named:,} keys of notes that hold the words"] if named else []
    if isinstance(store, ItemStore):
        if not dry_run:
            store.flush()
        owner = path if _ANY not in path else ()
        if damaged := sum(map(redactor.holds, store.damaged_texts(owner))):
            what = f"damaged files of notes that hold the words ({damaged:,})"
            unreached.append(f"{what}: repair or delete them")
    return RemovalReceipt({"notes": count}, unreached=tuple(unreached), is_dry_run=dry_run)


def _emptied(store: BaseStore, namespace: Namespace) -> int:
    """Delete the items of a namespace; return how many there were."""
    keys = list({item.key for item in _items(store, namespace)})
    for start in range(0, len(keys), _PAGE):
        store.batch([PutOp(namespace, key, None) for key in keys[start:][:_PAGE]])
    if left := {item.key for item in _items(store, namespace)}:
        raise StoreError(
            f"The store still holds {len(left)} of {len(keys)} notes after it was asked to "
            f"delete them. Erase again, or check the store itself: namespace {namespace}."
        )
    return len(keys)


def _scope(
    store: BaseStore, user_id: str | None, session_id: str | None, sessions: Collection[str]
) -> tuple[Namespace, list[Namespace]]:
    """Return the path of the notes in scope, and all their namespaces, before any is emptied."""
    if session_id is None:
        path = NOTES if user_id is None else notes_of_user(user_id)
    else:
        path = notes_of_session(user_id, session_id)
        if user_id is None:  # a session has the same notes whoever its user is
            path = tuple(_ANY if label == NO_USER else label for label in path)
    found = _namespaces(store, path)
    if sessions:  # of the owner of a thread; of a user's sessions, the notes of no user
        *beginning, _ = notes_of_session(None, "") if session_id is None else path
        labels = set(map(namespace_label, sessions))
        others = _namespaces(store, tuple(beginning))
        found += [namespace for namespace in others if session_label(namespace) in labels]
    return path, list(dict.fromkeys(found))


def _namespaces(store: BaseStore, path: Namespace) -> list[Namespace]:
    """Return the namespaces that begin with a path; all are listed before any is emptied."""
    begins = (MatchCondition(match_type="prefix", path=path),)
    found: list[Any] = []
    while page := store.batch([ListNamespacesOp(begins, None, _PAGE, len(found))])[0]:
        found += cast("list[Any]", page)
    return list(dict.fromkeys(tuple(each) for each in found if _begins(each, path)))


def _begins(namespace: Namespace, path: Namespace) -> bool:
    """Return whether a namespace begins with a path; some stores compare only the text."""
    pairs: Iterator[tuple[str, str]] = zip(namespace, path, strict=False)
    return len(namespace) >= len(path) and all(wanted in {_ANY, label} for label, wanted in pairs)


def _items(store: BaseStore, namespace: Namespace) -> list[Item]:
    (found,) = items_in(store, store.batch, [namespace])
    return [item for item in found if tuple(item.namespace) == namespace]

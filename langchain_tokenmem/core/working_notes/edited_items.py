"""Items of working notes whose message was edited or removed since: they are taken off."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.messages import text_of
from langchain_tokenmem.notes_state import ModesState, NoteItem

_FROM_WORDS = frozenset({"rule", "model"})

_WORD = re.compile(r"\w{3,}")


def without_edited_items(modes: ModesState, edited: Mapping[int, BaseMessage]) -> ModesState:
    """Return the sections without items of which their message no longer holds every word.

    Only what was read from words is looked at: what a tool did was done, and what the application
    noted is its own.

    Args:
        modes: The sections of all modes.
        edited: Messages by number, some of which were edited.

    Returns:
        The sections; the same object where nothing is taken off.
    """
    return _with_items(modes, lambda item: _is_said(item, edited))


def without_items_of(modes: ModesState, removed: Collection[int]) -> ModesState:
    """Return the sections without items that were read from words of removed messages.

    Args:
        modes: The sections of all modes.
        removed: Numbers of these messages.

    Returns:
        The sections; the same object where nothing is taken off.
    """
    return _with_items(
        modes, lambda item: item["by"] not in _FROM_WORDS or item["source"] not in removed
    )


def _with_items(modes: ModesState, stays: Callable[[NoteItem], bool]) -> ModesState:
    sections = {name: [*filter(stays, items)] for name, items in modes["sections"].items()}
    return modes if sections == modes["sections"] else {**modes, "sections": sections}


def _is_said(item: NoteItem, edited: Mapping[int, BaseMessage]) -> bool:
    source = edited.get(item["source"])
    if source is None or item["by"] not in _FROM_WORDS:
        return True
    said = [item["text"], item.get("rationale", ""), *item.get("rejected", ())]
    return _words(" ".join(said)) <= _words(text_of(source))


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}

"""Items of working notes whose message was edited or removed since: they are taken off."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping

from langchain_core.messages import AIMessage, BaseMessage

from langchain_tokenmem.core.messages import text_of
from langchain_tokenmem.core.numbers import last_number
from langchain_tokenmem.notes_state import ModesState, NoteItem
from langchain_tokenmem.state import RunningSummary

_WORD = re.compile(r"\w{3,}")


def without_edited_items(modes: ModesState, edited: Mapping[int, BaseMessage]) -> ModesState:
    """Return the sections without items of which their message no longer holds every word.

    What the application noted is its own.

    Args:
        modes: The sections of all modes.
        edited: Messages by number, some of which were edited.

    Returns:
        The sections; the same object where nothing is taken off.
    """
    return _with_items(modes, lambda item: _is_said(item, edited))


def without_items_of(modes: ModesState, removed: Collection[int]) -> ModesState:
    """Return the sections without items that were read from removed messages.

    Args:
        modes: The sections of all modes.
        removed: Numbers of these messages.

    Returns:
        The sections; the same object where nothing is taken off.
    """
    return _with_items(modes, lambda item: item["source"] not in removed)


def without_uncovered_items(
    modes: ModesState, summary: RunningSummary | None, turns: int
) -> ModesState:
    """Return the sections as they were read up to the summary's end: the rest is read again.

    Decisions behind it get the numbers that they had, as far as they are still there.

    Args:
        modes: The sections of all modes.
        summary: The running summary.
        turns: Human messages behind it that were read.
    """
    last = last_number(summary)
    left = _with_items(modes, lambda item: item["source"] <= last)
    decisions = modes["sections"].get("decisions", [])
    numbers = [item.get("number", 0) for item in decisions if item["source"] > last]
    rest: ModesState = {
        **left,
        "turn": max(0, modes["turn"] - turns),
        "read_to": summary["entries"][-1]["last_ids"] if summary else [],
        "next_number": min([*filter(None, numbers), modes["next_number"]]),
    }
    rest.pop("words", None)
    return rest


def _with_items(modes: ModesState, stays: Callable[[NoteItem], bool]) -> ModesState:
    """Return the sections with the items that stay, and names counted from now on.

    Which messages said a name is not known.
    """
    sections = {
        name: [item for item in items if item["by"] == "application" or stays(item)]
        for name, items in modes["sections"].items()
    }
    if sections == modes["sections"] and not modes["names"]:
        return modes
    return {**modes, "sections": sections, "names": {}}


def _is_said(item: NoteItem, edited: Mapping[int, BaseMessage]) -> bool:
    source = edited.get(item["source"])
    if source is None:
        return True
    text = item["text"].rpartition(" → ")[2] if item["by"] == "tool" else item["text"]
    said = [text, item.get("rationale", ""), *item.get("rejected", ())]
    calls = [call["args"] for call in source.tool_calls] if isinstance(source, AIMessage) else []
    return _words(" ".join(said)) <= _words(f"{text_of(source)} {calls}")


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}

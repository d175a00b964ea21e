"""Operations of a model on working notes, applied to the sections: pure, and never the last word.

What calls did and what is counted is no model's to write. An item of a newer message stays, and so
does one of the application.
"""

from __future__ import annotations

from collections.abc import Sequence

from langchain_tokenmem.core.working_notes.mode_profiles import ModeProfile
from langchain_tokenmem.core.working_notes.notes_draft import NotesDraft, find
from langchain_tokenmem.notes_state import ModesState, NoteItem, NoteOperation
from langchain_tokenmem.state import RunningSummary

MODEL_SECTIONS = frozenset(
    {
        *("task", "progress", "errors", "facts"),
        *("objective", "subgoals", "phase", "constraints", "decisions", "assumptions"),
    }
)
"""Sections that a model may write: files and commands are read from calls, names are counted."""

_ONE_ITEM = frozenset({"task", "objective", "phase"})


def with_entry_operations(
    modes: ModesState, log: RunningSummary | None, limits: ModeProfile
) -> ModesState:
    """Return the sections with the operations of the entries that were not applied yet.

    Args:
        modes: What was read so far.
        log: The running summary.
        limits: The profile whose limits hold.

    Returns:
        The sections; the same object where there is nothing to apply.
    """
    applied = modes.get("noted_to")
    entries = log["entries"] if log else []
    for place in reversed(range(len(entries))):
        if applied and applied in {entries[place]["id"], *entries[place].get("condensed", ())}:
            entries = entries[place + 1 :]
            break
    for entry in entries:
        if entry.get("operations"):
            modes = with_operations(modes, entry["operations"], limits)
            modes = {**modes, "noted_to": entry["id"]}
    return modes


def with_operations(
    modes: ModesState, operations: Sequence[NoteOperation], limits: ModeProfile
) -> ModesState:
    """Return the sections after checked operations; one that no longer fits does nothing.

    Args:
        modes: The sections; they are not changed.
        operations: The operations, in their order.
        limits: The profile whose limits hold.
    """
    draft = NotesDraft(modes, limits)
    for one in operations:
        if one["section"] not in MODEL_SECTIONS:
            continue
        if one["op"] == "add":
            _add(draft, one)
        else:
            _change(draft, one)
    return draft.modes


def _add(draft: NotesDraft, one: NoteOperation) -> None:
    """Add an item; what is noted already, by whomever, stays as it is."""
    section, items = one["section"], draft.items(one["section"])
    item = _item(draft, one)
    if any(known["text"].casefold() == item["text"].casefold() for known in items):
        return
    if section in _ONE_ITEM:
        if all(_is_open_to(known, one) for known in items):
            draft.set_items(section, [item])
    elif section == "decisions":
        draft.add_decision(item)
    else:
        draft.add(section, item, getattr(draft.limits, f"max_{section}"))


def _change(draft: NotesDraft, one: NoteOperation) -> None:
    """Replace or resolve the item that the operation names, where it still stands there."""
    items = list(draft.items(one["section"]))
    place = find(items, lambda item: item["text"] == one.get("before") and _is_open_to(item, one))
    if place is None:
        return
    before = items.pop(place)
    if one["op"] == "replace":
        item = _item(draft, one)
        # By these a later message, call or reader finds it again.
        if "key" in before:
            item["key"] = before["key"]
        if "number" in before:
            item["number"] = before["number"]
        items.insert(place, item)
    draft.set_items(one["section"], items)


def _item(draft: NotesDraft, one: NoteOperation) -> NoteItem:
    item = draft.item(one.get("text", ""), one["source"], "model")
    if one["section"] != "decisions":
        return item
    return draft.decided(item, one.get("rationale", ""), one.get("rejected", ()))


def _is_open_to(item: NoteItem, one: NoteOperation) -> bool:
    """Return whether an item may be changed by what an older or the same message says."""
    return item["by"] != "application" and item["source"] <= one["source"]

"""Messages that an entry of the running summary is about, and those that no entry tells yet."""

from __future__ import annotations

from collections.abc import Mapping

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.context_parts import ContextParts
from langchain_tokenmem.core.messages import is_pinned
from langchain_tokenmem.core.planning import Plan
from langchain_tokenmem.state import Cut


def messages_to_fold(
    context: ContextParts, planned: Plan, cuts_before: Mapping[str, Cut]
) -> list[BaseMessage]:
    """Return the messages that the next entry is about, as they were said.

    Those that leave the tail, and kept ones whose words are cut and stand in no entry. The first
    request and pinned messages stay visible: where they stand whole, they are told already. A turn
    memory that a message shows is read with it.

    Args:
        context: The conversation before the plan is carried out.
        planned: The plan.
        cuts_before: The cuts of the state before it.
    """
    untold = _untold(context, planned.cuts, cuts_before) if planned.fold else set()
    kept = [m for group in context.kept for m in group.source.messages if m.id in untold]
    folded = [m for group in context.tail[: planned.fold] for m in group.source.messages]
    told = [
        message
        for message in folded
        if message.id in planned.cuts
        or not (message.id == context.first_request or is_pinned(message))
    ]
    return [*map(context.turns.with_text, (kept + told) or folded)]


def cuts_after(
    context: ContextParts, planned: Plan, cuts_before: Mapping[str, Cut]
) -> dict[str, Cut]:
    """Return the cuts of the state after a plan.

    A kept message that is cut where no entry with a text is written is marked: the next one tells
    its words.
    """
    untold = _untold(context, planned.cuts, cuts_before)
    if not untold:
        return dict(planned.cuts)
    if not (planned.fold and planned.summary_tokens):
        return {
            key: {**cut, "untold": True} if key in untold else cut
            for key, cut in planned.cuts.items()
        }
    return {key: _told(cut) for key, cut in planned.cuts.items()}


def _untold(
    context: ContextParts, cuts: Mapping[str, Cut], cuts_before: Mapping[str, Cut]
) -> set[str]:
    """Return the ids of kept messages that are cut, and whose words stand in no entry."""
    kept = {message.id or "" for group in context.kept for message in group.source.messages}
    return {
        key
        for key in kept & cuts.keys()
        if key not in cuts_before or cuts_before[key].get("untold")
    }


def _told(cut: Cut) -> Cut:
    told = cut.copy()
    told.pop("untold", None)
    return told

"""Splitting of a conversation into the parts of a request, under a memory state.

Messages before a provider's compaction block need not be sent; the block goes back unchanged. A
readable block (Anthropic's) is folded together with the messages that it represents. An encrypted
one (OpenAI's) is useless to a summarizer, so it stays in view until a newer one arrives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage

from langchain_tokenmem.core.context_parts import ContextParts, RequestCounter
from langchain_tokenmem.core.covered import POINTER_IS_LOST, covered_end, with_true_count
from langchain_tokenmem.core.inserted_text import merged_system
from langchain_tokenmem.core.message_times import ShownTimes, TimePrefixes
from langchain_tokenmem.core.messages import (
    NamedMessages,
    groups,
    is_spoken,
    role_of,
    well_formed_message,
)
from langchain_tokenmem.core.profiles import LegalityProfile
from langchain_tokenmem.core.provider_format import fit_message, without_bound_reasoning
from langchain_tokenmem.core.repair import Repair, RepairedGroup, says_nothing
from langchain_tokenmem.core.request_options import RequestRules
from langchain_tokenmem.core.turn_memory import GroupOutcome
from langchain_tokenmem.core.turns import NO_TURNS, ShownTurns, covered_turn
from langchain_tokenmem.core.working_notes.tool_kinds import TurnMemorySettings
from langchain_tokenmem.state import MemoryState, RunningSummary, Sent


def split_context(
    messages: NamedMessages,
    state: MemoryState,
    counter: RequestCounter,
    *,
    rules: RequestRules,
    profile: LegalityProfile,
    reading: TurnMemorySettings,
    system: str | BaseMessage | None = None,
) -> ContextParts:
    """Return the conversation under `state`.

    Messages up to the summary's pointer are covered; of these, only the kept ones are shown. If
    neither the pointer's message nor one before it is among `messages`, all of them are
    tail: showing something twice is better than losing it.
    """
    summary = state["summary"]
    start = covered_end(messages, summary) if summary else 0
    covered, visible = _covered(messages, start, state["kept"]) if start else ([], [])
    seen = {key: time for key, time in state.get("times", ())}  # noqa: C416  # pairs are lists
    parser = _Parser(Repair(rules.dangling, profile), rules.show_times, seen, reading)
    kept = parser.groups(visible, are_kept=True)
    tail = parser.groups(messages[start:], are_kept=False)
    shown = [*visible, *messages[start:]]
    humans = [message.id for message in shown if role_of(message) == "human"]
    inside = [message for message in shown if role_of(message) == "system"]
    warnings = [*parser.repair.repairs, *parser.adapted]
    if summary:
        warnings += [] if start else [POINTER_IS_LOST]
        summary = with_true_count(summary, covered, start, state)
    given = SystemMessage(system) if isinstance(system, str) and system else system
    merged = merged_system([*([given] if isinstance(given, BaseMessage) else []), *inside])
    if merged is not None:
        merged = fit_message(well_formed_message(merged), profile, warnings)
    turns = state.get("turns")
    if turns is None:
        turns = covered_turn(messages[:start], reading) if start else NO_TURNS
    context = ContextParts(
        counter=counter,
        system=merged,
        summary=summary,
        kept=kept,
        tail=tail,
        cuts=state["cuts"],
        first_request=humans[0] if humans and rules.pin_first else None,
        newest_human=humans[-1] if humans else None,
        warnings=tuple(dict.fromkeys(warnings)),
        rules=rules,
        profile=profile,
        system_ids=tuple(message.id or "" for message in inside),
        todos=_covered_todos(summary) if summary else "",
        seen=seen,
        turns=ShownTurns(reading, parser.outcomes, turns).shown_with(kept, tail),
    )
    if state["blocks"]:
        context = context.with_blocks(state["blocks"])
    if "sent" in state:
        context = _without_bound_reasoning(context, state["sent"])
    found = _newest_compaction(context.tail) or _newest_compaction(context.kept)
    return _after_compaction(context, found) if found else context


@dataclass(frozen=True, slots=True)
class _Parser:
    """Makes messages into groups that the provider accepts, in the order of the conversation.

    Attributes:
        repair: Repairs groups.
        show_times: Messages that show their time, or None.
        seen: First sights of messages without a time, by id.
        reading: How the outcomes of tool calls are read.
        outcomes: Outcomes of groups by the id of each one's last message.
        adapted: Warnings about what is shown in another form.
    """

    repair: Repair
    show_times: ShownTimes | None
    seen: Mapping[str, str]
    reading: TurnMemorySettings
    outcomes: dict[str, GroupOutcome] = field(default_factory=dict)
    adapted: list[str] = field(default_factory=list)

    def groups(
        self, messages: Sequence[BaseMessage], *, are_kept: bool
    ) -> tuple[RepairedGroup, ...]:
        """Return the groups of messages; answers before kept messages may be missing."""
        found = groups([*filter(is_spoken, messages)])
        self.outcomes.update(self.reading.outcomes(found))
        shown, profile = [*map(self.repair.repaired, found)], self.repair.profile
        if profile.fits:
            shown = [_fit_group(group, profile, self.adapted) for group in shown]
        if self.show_times:
            times = TimePrefixes(self.show_times, self.seen, shows_answers=not are_kept)
            shown = times.shown_on(shown)
        return tuple(shown)


def _covered(
    messages: NamedMessages, start: int, kept: Sequence[str]
) -> tuple[list[BaseMessage], list[BaseMessage]]:
    """Return the covered messages that are read, and those of them that stay visible.

    No others are read, so that a turn costs no more than its window. The newest human message is
    always visible; the state does not list it if the application has removed a newer one since.
    """
    places = range(len(messages) - 1, -1, -1)
    newest = next((place for place in places if role_of(messages[place]) == "human"), start)
    ids = {*kept, messages[newest].id or ""} if newest < start else {*kept}
    held = (place for key in ids if (place := messages.places.get(key)) is not None)
    found = [messages[place] for place in sorted({*messages.unspoken, *held}) if place < start]
    return found, [m for m in found if m.id in ids or role_of(m) == "system"]


def _without_bound_reasoning(context: ContextParts, sent: Sent) -> ContextParts:
    """Return the context without reasoning bound to a prefix other than the newest one."""
    covered_to = context.kept[-1].source.last_id if context.kept else None
    return replace(
        context,
        kept=without_bound_reasoning(context.kept, covered_to),
        tail=without_bound_reasoning(context.tail, sent["unbound_to"]),
    )


def _fit_group(
    group: RepairedGroup, profile: LegalityProfile, warnings: list[str]
) -> RepairedGroup:
    messages = tuple(
        fitted
        for message in group.messages
        if not says_nothing(fitted := fit_message(message, profile, warnings))
    )
    return group.showing(messages)


def _covered_todos(summary: RunningSummary) -> str:
    """Return the to-do list of the newest entry that has one, or an empty text."""
    entries = reversed(summary["entries"])
    return next((entry["todos"] for entry in entries if "todos" in entry), "")


def _after_compaction(context: ContextParts, found: tuple[int, BaseMessage, bool]) -> ContextParts:
    """Return the context without the messages before the newest compaction block.

    Required messages stay: the first request, the newest human message, pinned ones.
    """
    place, message, is_readable = found
    context = replace(context, compaction=None if is_readable else message.id)
    if message.id not in {m.id for group in context.tail for m in group.messages}:
        return context
    before = (g if context.is_required(g) else g.showing(()) for g in context.tail[:place])
    return replace(context, tail=(*before, *context.tail[place:]))


def _newest_compaction(
    groups: Sequence[RepairedGroup],
) -> tuple[int, BaseMessage, bool] | None:
    """Return the index of the newest block, its message, and whether the block is readable."""
    with_blocks = [
        (place, message)
        for place, group in enumerate(groups)
        for message in group.messages
        if isinstance(message, AIMessage) and isinstance(message.content, list)
    ]
    for place, message in reversed(with_blocks):
        for block in filter(_is_compaction, reversed(message.content)):
            return place, message, bool(_held(block).get("content"))
    return None


def _is_compaction(block: Any) -> bool:
    """Return whether a block represents messages; one without content is a failed attempt."""
    held = _held(block)
    is_one = held.get("type") == "compaction"
    return is_one and bool(held.get("content") or held.get("encrypted_content"))


def _held(block: Any) -> dict[str, Any]:
    """Return a block in its provider's form, which LangChain's v1 form wraps."""
    held = block.get("value", block) if isinstance(block, dict) else {}
    return held if isinstance(held, dict) else {}

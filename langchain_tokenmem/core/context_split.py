"""Splitting of a conversation into the parts of a request, under a memory state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from langchain_core.messages import BaseMessage, SystemMessage

from langchain_tokenmem.core.bound_reasoning import without_bound_reasoning
from langchain_tokenmem.core.context_parts import ContextParts
from langchain_tokenmem.core.covered import POINTER_IS_LOST, covered_end, with_true_count
from langchain_tokenmem.core.inserted_text import merged_system, text_of_block
from langchain_tokenmem.core.message_times import ShownTimes, TimePrefixes
from langchain_tokenmem.core.messages import CHAT_TYPES, role_of, well_formed_message, with_ids
from langchain_tokenmem.core.parsing import ParsedMessages, ParseRules, parse
from langchain_tokenmem.core.profiles import COMMON, LegalityProfile
from langchain_tokenmem.core.provider_format import fit_message
from langchain_tokenmem.core.repair import Dangling
from langchain_tokenmem.core.request_counter import RequestCounter
from langchain_tokenmem.core.server_compaction import after_compaction
from langchain_tokenmem.core.shown_turns import ShownTurns
from langchain_tokenmem.core.turn_memory import TurnReading
from langchain_tokenmem.core.turns import TurnReader, covered_turn
from langchain_tokenmem.state import MemoryState, RunningSummary


def split_context(
    messages: Sequence[BaseMessage],
    state: MemoryState,
    counter: RequestCounter,
    *,
    system: str | BaseMessage | None = None,
    pin_first: bool = True,
    dangling: Dangling = "answer",
    profile: LegalityProfile = COMMON,
    show_times: ShownTimes | None = None,
    reading: TurnReading = TurnReading(),  # noqa: B008  # it is frozen
) -> ContextParts:
    """Return the conversation under `state`.

    Messages up to the summary's pointer are covered: of them only the kept ones are shown. Where
    neither the pointer's message nor one of those before it is among `messages`, all of them are
    tail: showing something twice is a smaller fault than losing it.
    """
    own: list[BaseMessage] = [system] if isinstance(system, BaseMessage) else []
    if isinstance(system, str) and system:
        own.append(SystemMessage(system))
    unique = with_ids(messages)
    summary = state["summary"]
    start = covered_end(unique, summary) if summary else 0
    ids = {*state["kept"], *_covered_newest_human(unique, start)}
    seen = {key: time for key, time in state.get("times", ())}  # noqa: C416  # pairs are lists
    times = TimePrefixes(show_times, seen) if show_times else None
    rules = ParseRules(dangling, profile, times, reading.outcomes)
    # Of what is covered only this is looked at: a turn costs what its window holds.
    covered = [m for m in unique[:start] if m.id in ids or m.type not in CHAT_TYPES]
    visible = [m for m in covered if m.id in ids or role_of(m) == "system"]
    # The answers before kept messages are not among them.
    alone = replace(rules, times=replace(times, tells_answers=False)) if times else rules
    kept = parse(visible, alone)
    tail = parse(unique[start:], rules, earlier_calls=kept.call_ids)
    humans = (*kept.humans, *tail.humans)
    inside = (*kept.system, *tail.system)
    repairs = [*kept.repairs, *tail.repairs, *kept.adapted, *tail.adapted]
    if summary and not start:
        repairs.append(POINTER_IS_LOST)
    if summary:
        summary = with_true_count(summary, covered, start, state)
    merged = merged_system([*own, *inside])
    if merged is not None:
        merged = fit_message(well_formed_message(merged), profile, repairs)
    context = ContextParts(
        counter=counter,
        system=merged,
        summary=summary,
        kept=kept.groups,
        tail=tail.groups,
        cuts=state["cuts"],
        first_request=humans[0] if humans and pin_first else None,
        newest_human=humans[-1] if humans else None,
        warnings=tuple(repairs),
        profile=profile,
        system_ids=tuple(message.id or "" for message in inside),
        todos=covered_todos(summary),
        kept_notes={key: text for key, b in state["blocks"].items() if (text := b.get("kept"))},
        blocks={key: text for key, one in state["blocks"].items() if (text := text_of_block(one))},
        working_notes={key: held for key, b in state["blocks"].items() if (held := b.get("notes"))},
        seen=seen,
        turns=_turns_in(kept, tail, state, unique[:start], reading),
    )
    if sent := state.get("sent"):
        covered_to = kept.groups[-1].source.last_id if kept.groups else None
        context = replace(
            context,
            kept=without_bound_reasoning(kept.groups, covered_to),
            tail=without_bound_reasoning(tail.groups, sent["unbound_to"]),
        )
    return after_compaction(context)


def covered_todos(summary: RunningSummary | None) -> str:
    """Return the to-do list of the newest entry that has one; empty for none."""
    entries = summary["entries"] if summary else ()
    return next((entry["todos"] for entry in reversed(entries) if "todos" in entry), "")


def _covered_newest_human(messages: Sequence[BaseMessage], start: int) -> list[str]:
    """Return the id of the newest human message, if it is covered.

    The state does not keep it where the application has removed a newer one since.
    """
    places = range(len(messages) - 1, -1, -1)
    newest = next((place for place in places if role_of(messages[place]) == "human"), start)
    return [messages[newest].id or ""] if newest < start else []


def _turns_in(
    kept: ParsedMessages,
    tail: ParsedMessages,
    state: MemoryState,
    covered: Sequence[BaseMessage],
    reading: TurnReading,
) -> ShownTurns:
    """Return the turn memories of kept messages and the tail, with what the state has of them."""
    turns = state.get("turns")
    reader = TurnReader(
        {**kept.outcomes, **tail.outcomes} if kept.outcomes else tail.outcomes,
        turns if turns is not None else covered_turn(covered, reading.outcomes),
        reading.include_partial,
    )
    return ShownTurns.of(reader, reading.shown, kept.groups, tail.groups)

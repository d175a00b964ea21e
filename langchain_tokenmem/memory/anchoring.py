"""Anchored counts of a call: what replies in the conversation have reported corrects its estimate.

A reply's request is what the view showed up to it, under the state that was in force. Replies since
the state last changed can therefore be compared with the estimate of the present request up to
them; the factors found before that change are kept in the state (`anchor`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

from langchain_core.messages import AIMessage

from langchain_tokenmem.core.anchoring import (
    NO_CORRECTION,
    REPLIES,
    REPLIES_TO_TRUST,
    Factors,
    ReportedRequest,
    TokensByKind,
    fitted_factors,
    sum_by_kind,
)
from langchain_tokenmem.core.budget import REPLY_TOKENS
from langchain_tokenmem.core.context_parts import ContextParts
from langchain_tokenmem.core.repair import FIRST_HUMAN_MESSAGE
from langchain_tokenmem.core.request_counter import cached_count
from langchain_tokenmem.core.shortening import CountMessage
from langchain_tokenmem.core.working_notes.mode_profiles import mode_in
from langchain_tokenmem.state import Anchor, MemoryState
from langchain_tokenmem.tokens.anchored import KindCounter, anchored_counter, text_by_kind
from langchain_tokenmem.tokens.base import TokenCounter


@dataclass(frozen=True)
class CountedModel:
    """The model that a call's tokens are counted for.

    Attributes:
        name: Its name; empty where nothing names one.
        is_called: Whether the model itself is known, and not only what the budget names.
    """

    name: str
    is_called: bool


@dataclass(frozen=True)
class AnchoredCall:
    """A call whose counts are corrected.

    Attributes:
        context: The parts of the request, counted with the corrections.
        counter: Counts with the corrections.
        factors: The corrections.
        reported: Tokens of the newest request that a reply has reported; 0 before enough have.
    """

    context: ContextParts
    counter: TokenCounter
    factors: Factors
    reported: int = 0


def anchored_call(
    context: ContextParts,
    state: MemoryState,
    kinds: KindCounter,
    model: CountedModel,
    *,
    limit: int,
) -> AnchoredCall:
    """Return a call with its counts corrected by the replies that stand in it.

    Args:
        context: The parts of the request, with tokens by kind.
        state: What was decided so far; its anchor holds the factors of earlier replies.
        kinds: Counts by kind.
        model: The model that is counted for.
        limit: Most tokens of a request.
    """
    anchor = state.get("anchor")
    kept = _factors_of(anchor) if anchor and anchor["model"] == model.name else None
    reports = _reports(context, state, kinds, model)
    factors = fitted_factors(tuple(reports), kept, limit=limit)
    reported = reports[-1].tokens if len(reports) >= REPLIES_TO_TRUST else 0
    if factors == NO_CORRECTION:
        return AnchoredCall(context, kinds.counter, factors, reported)
    counter = anchored_counter(kinds, factors)
    corrected = with_factors(context, counter.message, factors)
    return AnchoredCall(corrected, counter, factors, reported)


def with_factors(context: ContextParts, message: CountMessage, factors: Factors) -> ContextParts:
    """Return a context that is counted with corrections, in the place of any that it has.

    Args:
        context: The parts of the request, with tokens by kind.
        message: Counts the tokens of a message with the corrections.
        factors: The corrections.
    """
    estimated = context.counter.estimated or context.counter
    corrected = replace(
        estimated,
        message=cached_count(message),
        tools=round(estimated.tools * factors.tools),
        overhead=estimated.overhead + round(factors.hidden),
        known_sizes={},
        estimated=estimated,
    )
    for groups in (context.kept, context.tail):
        sizes = estimated.group_sizes(groups, context.cuts)
        corrected.remember(groups, context.cuts, sizes.corrected(factors))
    return replace(context, counter=corrected)


def with_anchor(
    before: MemoryState,
    after: MemoryState,
    context: ContextParts,
    *,
    model: CountedModel,
    factors: Factors | None,
) -> MemoryState:
    """Return a state that tells from which message on replies can be compared with it.

    Args:
        before: The state that the call began with.
        after: The state after its compaction.
        context: The parts of the request before it.
        model: The model that is counted for.
        factors: Corrections of this call; None where its counts are exact.
    """
    anchor = before.get("anchor")
    is_other = anchor is not None and anchor["model"] != model.name
    if factors is None and anchor is None:
        return after
    is_unknown = anchor is None and model.is_called and _has_unnamed_reports(context)
    if not (is_other or is_unknown or _has_other_prefix(before, after)):
        return after
    last = context.tail[-1].source.last_id if context.tail else None
    kept = {} if is_other or factors in (None, NO_CORRECTION) else factors._asdict()
    return {**after, "anchor": {"model": model.name, "since": last, "factors": kept}}


def with_late_anchor(state: MemoryState, last: str | None, *, skip: bool = False) -> MemoryState:
    """Return a state that came into force later than it was made.

    Args:
        state: The state.
        last: Id of the last message when it came into force.
        skip: Whether the reply after it was still made under the state before.
    """
    anchor = state.get("anchor")
    if anchor is None:
        return state
    return {**state, "anchor": {**anchor, "since": last, "skip": skip}}


def _reports(
    context: ContextParts, state: MemoryState, kinds: KindCounter, model: CountedModel
) -> list[ReportedRequest]:
    """Return the requests of the newest replies that can be compared, oldest first."""
    places = _comparable(context, state, model)
    if not places:
        return []
    counter, message = context.counter, kinds.message
    system = context.system_message()
    fixed = [message(system)] if system is not None else []
    fixed.append(TokensByKind(other=counter.overhead + REPLY_TOKENS))
    if not context.starts_with_human():
        fixed.append(message(FIRST_HUMAN_MESSAGE))
    shown = counter.group_sizes(context.tail, context.cuts).kinds
    fixed.extend(chain.from_iterable(counter.group_sizes(context.kept, context.cuts).kinds))
    for group in context.kept:
        fixed.extend(_blocks_in(group.messages, context, kinds))
    if context.summary_role == "human":  # else it stands in the system message
        texts = (*context.memory_texts(), *context.pins_in_human())
        fixed.extend(text_by_kind(text, kinds.counter.text(text)) for text in texts)
    so_far, start, reports = sum_by_kind(fixed), 0, []
    for place in places:
        added = list(chain.from_iterable(shown[start:place]))
        for group in context.tail[start:place]:
            added.extend(_blocks_in(group.messages, context, kinds))
        so_far, start = sum_by_kind([so_far, *added]), place
        tokens = _reported(context.tail[place].source.messages[0])
        reports.append(ReportedRequest(so_far, counter.tools, tokens))
    return reports


def _comparable(context: ContextParts, state: MemoryState, model: CountedModel) -> list[int]:
    """Return the places of the newest replies whose requests the present one begins with."""
    anchor = state.get("anchor")
    first = 0
    if anchor is not None:
        if anchor["model"] != model.name:
            return []
        first = _place_after(context, anchor["since"])
    elif state["summary"] is not None or state["cuts"]:
        return []  # when it was decided is not known
    has_to_skip = anchor is not None and anchor.get("skip", False)
    newest = (
        place
        for place in range(len(context.tail) - 1, first - 1, -1)
        if context.tail[place].messages  # not hidden behind a compaction by the provider
        and _counts(context.tail[place].source.messages[0], model, is_known=anchor is not None)
    )
    found = [*islice(newest, REPLIES + has_to_skip)][::-1]
    return found[1:] if has_to_skip and len(found) <= REPLIES else found[-REPLIES:]


def _place_after(context: ContextParts, since: str | None) -> int:
    if since is None:
        return 0
    for place in range(len(context.tail) - 1, -1, -1):
        if any(message.id == since for message in context.tail[place].source.messages):
            return place + 1
    return len(context.tail)


def _counts(message: Any, model: CountedModel, *, is_known: bool) -> bool:
    """Return whether a message is a reply of the called model that reports its request.

    A reply that names no model counts since the model is known, and where none is named at all.
    """
    if not isinstance(message, AIMessage) or not _reported(message):
        return False
    name = message.response_metadata.get("model_name")
    if not isinstance(name, str) or not name or not model.name:
        return is_known or not model.is_called
    return is_same_model(model.name, name)


def _has_unnamed_reports(context: ContextParts) -> bool:
    """Return whether the newest reply reports its request, and not the model that it is of."""
    firsts = (group.source.messages[0] for group in reversed(context.tail))
    newest = next((first for first in firsts if isinstance(first, AIMessage)), None)
    if newest is None or not _reported(newest):
        return False
    return not newest.response_metadata.get("model_name")


_NAME = re.compile(r"(?:gpt|o\d|claude|gemini|gemma|llama|mi[sn]tra|mixtral|deepseek|qwen|grok).*")


def is_same_model(called: str, reported: str) -> bool:
    """Return whether a provider's name for a model can be that of the called one.

    Prefixes, dates and punctuation differ: `anthropic/claude-sonnet-4.5` is reported as
    `claude-sonnet-4-5-20250929`. A name that says nothing (a deployment) fits any.
    """
    names = [_NAME.search(re.sub(r"[._]", "-", name.lower())) for name in (called, reported)]
    if None in names:
        return True
    left, right = (name[0].partition(":")[0] for name in names if name)
    return left.startswith(right) or right.startswith(left)


def _reported(message: Any) -> int:
    """Return the input tokens that a reply reports; 0 where it reports none.

    Some integrations leave out what came from the provider's cache, against the rule.
    """
    usage = getattr(message, "usage_metadata", None) or {}
    tokens = usage.get("input_tokens")
    if not isinstance(tokens, int):
        return 0
    details: Mapping[str, Any] = usage.get("input_token_details") or {}
    cached = sum(details.get(key) or 0 for key in ("cache_read", "cache_creation"))
    return tokens + cached if cached > tokens else tokens


def _blocks_in(
    messages: Sequence[Any], context: ContextParts, kinds: KindCounter
) -> list[TokensByKind]:
    """Return the tokens of the memory blocks and the turn memories inside messages."""
    inserted = (context.blocks, context.turns.texts)
    if not any(inserted):
        return []
    texts = (known.get(message.id or "") for message in messages for known in inserted)
    return [text_by_kind(text, kinds.counter.text(text)) for text in texts if text]


def _has_other_prefix(before: MemoryState, after: MemoryState) -> bool:
    """Return whether a compaction has changed what earlier requests have shown."""
    return (
        before["summary"] != after["summary"]
        or before["totals"]["compactions"] != after["totals"]["compactions"]
        or mode_in(before) != mode_in(after)
    )


def _factors_of(anchor: Anchor) -> Factors | None:
    stored = anchor["factors"]
    return Factors(**stored) if stored and stored.keys() <= set(Factors._fields) else None

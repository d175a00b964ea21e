"""Token counts of a call, corrected by what the provider has reported or counted.

A reply's `usage_metadata["input_tokens"]` is the true size of the request that it answered. Divided
by our estimate of that request, it is the ratio by which the next estimate is multiplied, as with
`use_usage_metadata_scaling` of langchain-core's `count_tokens_approximately`. Only replies since
the last change of the state can be compared: the request of an earlier one is no longer
known. The ratio found before that change is kept in the state (`reports`).

Near a threshold, a `ProviderCounter` asks the provider for its count. The parts stay estimates,
scaled so that their sum is the provider's count.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from langchain_tokenmem.core.budget import ESTIMATE_MARGIN, TokenBudget
from langchain_tokenmem.core.context_parts import ContextParts, RequestCounter
from langchain_tokenmem.core.repair import place_after
from langchain_tokenmem.core.size_caps import cap_messages, request_tokens
from langchain_tokenmem.core.working_notes.mode_profiles import mode_in
from langchain_tokenmem.errors import BudgetExceededError
from langchain_tokenmem.memory.prepared_call import PreparedCall
from langchain_tokenmem.state import MemoryState
from langchain_tokenmem.tokens.counters import CORRECTED_ACCURACY, CorrectedCounter, TokenCounter
from langchain_tokenmem.tokens.provider_counter import ProviderCounter

logger = logging.getLogger(__name__)

LEAST_RATIO, MOST_RATIO = 0.5, 3.0
"""Bounds of a ratio. A reply whose ratio is outside of them answered another request."""

REPLIES_TO_TRUST = 3
"""Number of replies after which an estimate may be lowered, and is known to be close."""

_STEP = 1_000
"""Ratios are rounded to thousandths, so that counts keep their values between small corrections."""


def with_known_counts(call: PreparedCall, counter: TokenCounter | None) -> PreparedCall:
    """Return a call corrected by the newest reply in it, and by its provider's count if known.

    Args:
        call: The call, with its estimates.
        counter: The application's counter; a `ProviderCounter` has such counts.
    """
    context, reports, estimating = call.context, call.state.get("reports"), call.counter
    kept = reports["ratio"] if reports and reports["model"] == call.model else None
    places = _comparable(call)
    is_sure = kept is not None or len(places) >= REPLIES_TO_TRUST
    limit = call.budget.limit
    ratio = _ratio(context, places[0], kept, limit, is_sure=is_sure) if places else None
    ratio = ratio or kept or 1.0
    reported = _reported_at(context, places[0]) if len(places) >= REPLIES_TO_TRUST else 0
    call = replace(call, ratio=ratio, reported=reported)
    if ratio != 1.0:
        corrected = CorrectedCounter(estimating, ratio)
        call = replace(call, context=with_ratio(context, ratio), counter=corrected)
    if isinstance(counter, ProviderCounter):
        return _with_known_count(call, estimating, counter)
    return call


def _ratio(
    context: ContextParts, place: int, kept: float | None, limit: int, *, is_sure: bool
) -> float | None:
    """Return the ratio of reported to estimated tokens for the reply at an index of the tail.

    None if the reply cannot belong to the request that it is compared with. Estimates are not
    lowered before this is certain: the first replies may have answered shorter requests.
    """
    estimated = request_tokens(context) - sum(context.sizes(context.tail)[place:])
    ratio = _reported_at(context, place) / max(estimated, 1)
    if not LEAST_RATIO < ratio < MOST_RATIO or (kept or 1.0) * estimated > limit:
        return None
    return round(ratio * _STEP) / _STEP if is_sure or ratio > 1.0 else 1.0


def with_ratio(context: ContextParts, ratio: float) -> ContextParts:
    """Return a context whose counts are corrected by a ratio, replacing any other."""
    estimated = context.counter.estimated or context.counter
    corrected = RequestCounter(
        lambda message: round(ratio * estimated.message(message)),
        tools=round(ratio * estimated.tools),
        overhead=estimated.overhead,
        estimated=estimated,
    )
    return replace(context, counter=corrected)


def with_reports(before: MemoryState, after: MemoryState, call: PreparedCall) -> MemoryState:
    """Return a state that records from which message on replies can be compared with it.

    Args:
        before: The state at the beginning of the call.
        after: The state after its compaction.
        call: The call before it; its ratio is None if its counts are exact.
    """
    reports = before.get("reports")
    if call.ratio is None and reports is None:
        return after
    is_other = reports is not None and reports["model"] != call.model
    is_unknown = reports is None and call.is_called and _has_unnamed_reports(call.context)
    has_other_prefix = (
        before["summary"] != after["summary"]
        or before["totals"]["compactions"] != after["totals"]["compactions"]
        or mode_in(before) != mode_in(after)
    )
    if not (is_other or is_unknown or has_other_prefix):
        return after
    kept = None if is_other or call.ratio == 1.0 else call.ratio
    return {**after, "reports": {"model": call.model, "since": call.context.last_id, "ratio": kept}}


def in_force_from(state: MemoryState, last: str | None, *, skip: bool = False) -> MemoryState:
    """Return a state that took effect later than it was made.

    Args:
        state: The state.
        last: Id of the last message when it took effect.
        skip: Whether the reply after it was still made under the previous state.
    """
    reports = state.get("reports")
    if reports is None:
        return state
    return {**state, "reports": {**reports, "since": last, "skip": skip}}


def _comparable(call: PreparedCall) -> list[int]:
    """Return the indexes of the newest replies whose requests are a prefix of the current one.

    The newest comes first; there are no more than are needed to trust them.
    """
    context, state = call.context, call.state
    reports = state.get("reports")
    first = 0
    if reports is not None:
        if reports["model"] != call.model:
            return []
        since = reports["since"]
        first = 0 if since is None else place_after(context.tail, since) or len(context.tail)
    elif state["summary"] is not None or state["cuts"]:
        return []  # it is unknown when it was decided
    has_to_skip = reports is not None and reports.get("skip", False)
    newest = (
        place
        for place in range(len(context.tail) - 1, first - 1, -1)
        if context.tail[place].messages  # not hidden behind a compaction by the provider
        and isinstance(reply := context.tail[place].source.messages[0], AIMessage)
        and _counts(reply, call, is_known=reports is not None)
    )
    found = [*islice(newest, REPLIES_TO_TRUST + has_to_skip)]
    return found[:-1] if has_to_skip and len(found) <= REPLIES_TO_TRUST else found


def _counts(reply: AIMessage, call: PreparedCall, *, is_known: bool) -> bool:
    """Return whether a reply is by the called model and reports the size of its request.

    A reply without a model name counts from when the model is known, or if no reply has one.
    """
    if not _reported(reply):
        return False
    name = reply.response_metadata.get("model_name")
    if not isinstance(name, str) or not name or not call.model:
        return is_known or not call.is_called
    return is_same_model(call.model, name)


def _has_unnamed_reports(context: ContextParts) -> bool:
    """Return whether the newest reply reports the size of its request, but not its model."""
    firsts = (group.source.messages[0] for group in reversed(context.tail))
    newest = next((first for first in firsts if isinstance(first, AIMessage)), None)
    if newest is None or not _reported(newest):
        return False
    return not newest.response_metadata.get("model_name")


_NAME = re.compile(r"(?:gpt|o\d|claude|gemini|gemma|llama|mi[sn]tra|mixtral|deepseek|qwen|grok).*")


def is_same_model(called: str, reported: str) -> bool:
    """Return whether a provider's name for a model can mean the called one.

    Prefixes, dates and punctuation differ: `anthropic/claude-sonnet-4.5` is reported as
    `claude-sonnet-4-5-20250929`. A meaningless name (a deployment) matches any.
    """
    names = [_NAME.search(re.sub(r"[._]", "-", name.lower())) for name in (called, reported)]
    if None in names:
        return True
    left, right = (name[0].partition(":")[0] for name in names if name)
    return left.startswith(right) or right.startswith(left)


def _reported_at(context: ContextParts, place: int) -> int:
    return _reported(context.tail[place].source.messages[0])


def _reported(message: Any) -> int:
    """Return the input tokens that a reply reports, or 0.

    Contrary to the convention, some integrations omit tokens from the provider's cache.
    """
    usage = getattr(message, "usage_metadata", None) or {}
    tokens = usage.get("input_tokens")
    if not isinstance(tokens, int):
        return 0
    details: Mapping[str, Any] = usage.get("input_token_details") or {}
    cached = sum(details.get(key) or 0 for key in ("cache_read", "cache_creation"))
    return tokens + cached if cached > tokens else tokens


def request_to_count(
    call: PreparedCall, counter: ProviderCounter
) -> tuple[list[BaseMessage], Sequence[Any] | None] | None:
    """Return the messages and tools of a request for which the provider's count matters.

    None if there is no need to ask.
    """
    if not counter.asks:
        return None
    try:
        capped = cap_messages(call.context, call.budget)
    except BudgetExceededError:  # planning the call reports it
        return None
    if not is_near_threshold(request_tokens(capped), call.budget, call.reported):
        return None
    return capped.request_messages(), call.options.get("tools")


def _with_known_count(
    call: PreparedCall, estimating: TokenCounter, counter: ProviderCounter
) -> PreparedCall:
    """Return a call with its provider's count; unchanged if that is unknown.

    A count that cannot belong to this request is ignored.
    """
    asked = request_to_count(call, counter)
    tokens = counter.known(*asked) if asked else None
    if tokens is None:
        return call
    context, budget = call.context, call.budget
    whole = tokens + context.counter.overhead
    factor = whole / request_tokens(cap_messages(context, budget))
    if not LEAST_RATIO < factor < MOST_RATIO:
        _report_unused(repr(counter))
        return call
    ratio = min(MOST_RATIO, max(LEAST_RATIO, round((call.ratio or 1.0) * factor, 4)))
    context = with_ratio(context, ratio)
    rest = whole - request_tokens(cap_messages(context, budget))
    exact = replace(context.counter, overhead=context.counter.overhead + rest)
    return replace(
        call,
        context=replace(context, counter=exact),
        counter=CorrectedCounter(estimating, ratio),
        ratio=ratio,
        provider_tokens=whole,
    )


def is_near_threshold(tokens: int, budget: TokenBudget, reported: int = 0) -> bool:
    """Return whether an estimate is so near a threshold that its error matters.

    That is within the margin of estimates, a tenth of the window, or within the budget's own if
    that is larger. For a request that replies have reported, the margin applies only to what is
    new since then.

    Args:
        tokens: The estimate.
        budget: The budget.
        reported: Tokens of the newest request reported by a reply; 0 if there is none.
    """
    margin = max(ESTIMATE_MARGIN, budget.margin or 0.0)
    within = margin * budget.context_window
    if reported:
        new = max(0, tokens - reported)
        within = min(within, CORRECTED_ACCURACY * reported + margin * new)
    thresholds = (budget.compact_tokens, budget.summarize_tokens, budget.limit)
    return any(abs(tokens - threshold) <= within for threshold in thresholds)


@functools.lru_cache(maxsize=64)
def _report_unused(counter: str) -> None:
    logger.warning(
        "A count by %s is not between %g and %g times the estimate: it is not used.",
        counter,
        LEAST_RATIO,
        MOST_RATIO,
    )

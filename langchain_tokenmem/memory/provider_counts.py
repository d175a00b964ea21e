"""Provider's count of a call: asked for near a threshold, and spread over the parts of the request.

The parts stay estimates, times the ratio that makes their sum the provider's. A compaction keeps
that ratio in the state (`reports`), so the provider need not be asked again soon.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.budget import ESTIMATE_MARGIN, TokenBudget
from langchain_tokenmem.core.size_caps import cap_messages, request_tokens
from langchain_tokenmem.errors import BudgetExceededError
from langchain_tokenmem.memory.prepared_call import PreparedCall
from langchain_tokenmem.memory.reported_counts import LEAST_RATIO, MOST_RATIO, with_ratio
from langchain_tokenmem.tokens.counters import CORRECTED_ACCURACY, CorrectedCounter, TokenCounter
from langchain_tokenmem.tokens.provider_counter import CountJob, ProviderCounter

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CountQuestion:
    """A request of which the provider's count decides something.

    Attributes:
        counter: Asks the provider.
        messages: The whole request, its system message included.
        tools: Its tools.
    """

    counter: ProviderCounter
    messages: Sequence[BaseMessage]
    tools: Sequence[Any] | None

    @classmethod
    def of(
        cls, call: PreparedCall, counter: object, tools: Sequence[Any] | None
    ) -> CountQuestion | None:
        """Return the question of a call; None where nobody is to be asked."""
        if not isinstance(counter, ProviderCounter) or not counter.asks:
            return None
        try:
            capped = cap_messages(call.context, call.budget)
        except BudgetExceededError:  # whoever plans the call says so
            return None
        if not is_near_threshold(request_tokens(capped), call.budget, call.reported):
            return None
        return cls(counter, capped.request_messages(), tools)

    @property
    def answer(self) -> int | None:
        """Tokens, as the provider has counted them; None where it has not."""
        return self.counter.known(self.messages, self.tools)

    def ask(self) -> CountJob | None:
        """Start to ask the provider; None where its answer is known, or none is to be had."""
        return self.counter.start(self.messages, self.tools)


def with_known_count(
    call: PreparedCall, tokens: TokenCounter, counter: object, tools: Sequence[Any] | None
) -> PreparedCall:
    """Return a call counted as the provider has counted it; as it is where that is not known."""
    question = CountQuestion.of(call, counter, tools)
    known = question.answer if question else None
    if question is None or known is None:
        return call
    counted = with_provider_count(call, tokens, known)
    if counted is call:
        _report_unused(repr(question.counter))
    return counted


def is_near_threshold(tokens: int, budget: TokenBudget, reported: int = 0) -> bool:
    """Return whether an estimate is so near a threshold that its error can decide.

    That is within the margin of estimates, a tenth of the window, or within the budget's own where
    that is larger. Of what replies have reported an estimate is nearer: the margin applies to what
    is new since then.

    Args:
        tokens: The estimate.
        budget: The budget.
        reported: Tokens of the newest request that a reply has reported; 0 for none.
    """
    margin = max(ESTIMATE_MARGIN, budget.margin or 0.0)
    within = margin * budget.context_window
    if reported:
        new = max(0, tokens - reported)
        within = min(within, CORRECTED_ACCURACY * reported + margin * new)
    thresholds = (budget.compact_tokens, budget.summarize_tokens, budget.limit)
    return any(abs(tokens - threshold) <= within for threshold in thresholds)


def with_provider_count(call: PreparedCall, counter: TokenCounter, tokens: int) -> PreparedCall:
    """Return a call whose request has the tokens that its provider has counted.

    A count that cannot be of this request changes nothing.

    Args:
        call: The call, with its estimates.
        counter: The estimating counter.
        tokens: The provider's count of messages and tools.
    """
    context, budget = call.context, call.budget
    whole = tokens + context.counter.overhead
    factor = whole / request_tokens(cap_messages(context, budget))
    if not LEAST_RATIO < factor < MOST_RATIO:
        return call
    ratio = min(MOST_RATIO, max(LEAST_RATIO, round((call.ratio or 1.0) * factor, 4)))
    context = with_ratio(context, ratio)
    rest = whole - request_tokens(cap_messages(context, budget))
    exact = replace(context.counter, overhead=context.counter.overhead + rest)
    return replace(
        call,
        context=replace(context, counter=exact),
        counter=CorrectedCounter(counter, ratio),
        ratio=ratio,
        provider_tokens=whole,
    )


@functools.lru_cache(maxsize=64)
def _report_unused(counter: str) -> None:
    logger.warning(
        "A count by %s is not between %g and %g times the estimate: it is not used.",
        counter,
        LEAST_RATIO,
        MOST_RATIO,
    )

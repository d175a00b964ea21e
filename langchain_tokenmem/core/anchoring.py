"""Correction of estimated token counts by the counts that a provider has reported.

A reply's `usage_metadata["input_tokens"]` is the true size of the request that it answered. The
estimate of that request, split by kind of content, is compared with it: a Kalman filter (recursive
least squares, Haykin, "Adaptive Filter Theory", chapter 10) over the last replies gives one factor
per kind. It is a pure function of the pairs: no hidden learning, the same after a restart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import mul
from typing import NamedTuple

LEAST_FACTOR, MOST_FACTOR = 0.5, 3.0
"""Bounds of a factor. A reply whose ratio lies outside of them answered another request."""

REPLIES = 8
"""Replies that are compared, the newest ones."""

STEP = 0.01
"""Factors are rounded to it, so that counts keep their values between small corrections."""

# Standard deviations of the factors, as fractions. Before the first reply all are unsure together
# (how coarse a vocabulary is) and each for itself; those from before a change of the prefix are
# surer. Between two replies each drifts a little, so that the newest one weighs most. The last is
# what a report itself is off by: frames, ids. Chosen by the error of the next request over the
# recorded conversations (integration_tests/test_anchored_counts.py).
_COMMON, _OWN, _DRIFT, _NOISE = 0.25, 0.20, 0.02, 0.004
_COMMON_KEPT, _OWN_KEPT = 0.03, 0.06
# The same of the hidden tokens, in tokens.
_HIDDEN, _HIDDEN_KEPT = 60.0, 30.0
# Replies that fit each other worse than this were not all made from the requests that are compared.
_MOST_SPREAD = 0.10
_REPLIES_TO_LOWER = 3
_SIZE = 5


class TokensByKind(NamedTuple):
    """Tokens of a message, or of several, by kind of content.

    Attributes:
        prose: Of words in Latin letters.
        data: Of code, data and markup.
        scripts: Of other scripts, accents and symbols beyond ASCII.
        other: Of what is counted by rules and not by a vocabulary: frames, media.
    """

    prose: float = 0.0
    data: float = 0.0
    scripts: float = 0.0
    other: float = 0.0


class Factors(NamedTuple):
    """Corrections of estimated tokens.

    Attributes:
        prose: Factor on words in Latin letters.
        data: Factor on code, data and markup.
        scripts: Factor on everything beyond ASCII.
        tools: Factor on tool schemas.
        hidden: Tokens that the provider adds to every request.
    """

    prose: float = 1.0
    data: float = 1.0
    scripts: float = 1.0
    tools: float = 1.0
    hidden: float = 0.0

    def tokens(self, message: TokensByKind) -> int:
        """Return the corrected tokens of a message."""
        prose, data, scripts, other = message
        return round(prose * self.prose + data * self.data + scripts * self.scripts + other)


NO_CORRECTION = Factors()


@dataclass(frozen=True, slots=True)
class ReportedRequest:
    """A request as it was estimated, and its true size.

    Attributes:
        messages: Estimated tokens of its messages.
        tools: Estimated tokens of its tool schemas.
        tokens: Input tokens that the provider has reported.
    """

    messages: TokensByKind
    tools: float
    tokens: int

    @property
    def estimate(self) -> tuple[float, ...]:
        """Estimated tokens that each factor applies to."""
        prose, data, scripts, _ = self.messages
        return (prose, data, scripts, self.tools, 1.0)

    def is_plausible(self) -> bool:
        """Return whether the report can be of this request."""
        estimated = sum(self.messages) + self.tools
        return LEAST_FACTOR * estimated < self.tokens < MOST_FACTOR * estimated


@lru_cache(maxsize=256)
def fitted_factors(
    reports: tuple[ReportedRequest, ...], kept: Factors | None = None, *, limit: int | None = None
) -> Factors:
    """Return the factors that fit reported requests.

    Args:
        reports: Requests of one model, oldest first.
        kept: Factors found before the last change of the prefix; None for none.
        limit: Most tokens of a request: what is estimated to be over it was sent with less.

    Returns:
        Factors within bounds. From fewer than three replies, or replies that do not fit each other,
        nothing is corrected downwards: they may have answered other, shorter requests.
    """
    start = kept or NO_CORRECTION
    factors, used = _filtered(reports[-REPLIES:], start, limit, _first_covariance(kept))
    if factors[-1] < 0:
        # Nothing is hidden: what is left over belongs to the other factors.
        start = start._replace(hidden=0.0)
        unsure = _first_covariance(kept, hidden=0.0)
        factors, used = _filtered(reports[-REPLIES:], start, limit, unsure)
    if not used:
        return start
    *scales, hidden = factors
    scales = [min(MOST_FACTOR, max(LEAST_FACTOR, scale)) for scale in scales]
    is_sure = kept is not None or len(used) >= _REPLIES_TO_LOWER
    if not is_sure or _spread(used, [*scales, hidden]) > _MOST_SPREAD:
        scales = [max(1.0, scale) for scale in scales]
    prose, data, scripts, tools = (round(round(scale / STEP) * STEP, 4) for scale in scales)
    return Factors(prose, data, scripts, tools, round(hidden))


def _filtered(
    reports: Sequence[ReportedRequest],
    start: Factors,
    limit: int | None,
    unsure: list[list[float]],
) -> tuple[list[float], list[ReportedRequest]]:
    """Return the factors after the reports, and the reports that could be used."""
    factors, used = list(start), []
    for report in reports:
        estimated = _dot(factors, report.estimate) + report.messages.other
        if not report.is_plausible() or (limit is not None and estimated > limit):
            continue
        used.append(report)
        for index in range(_SIZE - 1):
            unsure[index][index] += _DRIFT**2
        _correct(factors, unsure, report)
    return factors, used


def _first_covariance(kept: Factors | None, hidden: float | None = None) -> list[list[float]]:
    """Return how unsure the factors are before the first report, each with each."""
    common, own = (_COMMON_KEPT, _OWN_KEPT) if kept else (_COMMON, _OWN)
    if hidden is None:
        hidden = _HIDDEN_KEPT if kept else _HIDDEN
    last = _SIZE - 1
    unsure = [[common**2 + (own**2 if i == j else 0.0) for j in range(last)] for i in range(last)]
    return [*([*row, 0.0] for row in unsure), [*[0.0] * last, hidden**2]]


def _correct(factors: list[float], unsure: list[list[float]], report: ReportedRequest) -> None:
    """Move the factors towards one report, in proportion to how unsure each of them is."""
    estimate = report.estimate
    rest = report.tokens - report.messages.other - _dot(factors, estimate)
    gains = [_dot(row, estimate) for row in unsure]
    total = _dot(gains, estimate) + (_NOISE * report.tokens) ** 2
    for i in range(_SIZE):
        factors[i] += gains[i] * rest / total
        for j in range(_SIZE):
            unsure[i][j] -= gains[i] * gains[j] / total


def _spread(reports: Sequence[ReportedRequest], factors: Sequence[float]) -> float:
    """Return the largest relative error of the factors over the reports."""
    return max(
        abs(_dot(factors, report.estimate) + report.messages.other - report.tokens) / report.tokens
        for report in reports
    )


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return float(sum(map(mul, left, right)))

"""Correction of estimated token counts by the counts that a provider has reported.

A reply's `usage_metadata["input_tokens"]` is the true size of the request that it answered. The
estimate of that request, split by kind of content, is compared with it: a Kalman filter (recursive
least squares, Haykin, "Adaptive Filter Theory", chapter 10) over the last replies gives one factor
per kind. It is a pure function of the pairs: no hidden learning, the same after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
# (how coarse a vocabulary is), data with data, what tools are told and answer with each other (a
# provider writes it into the request in its own form), and each for itself; those from before a
# change of the prefix are surer. Between two replies each drifts a little, so that the newest one
# weighs most. The last is what a report itself is off by: frames, ids. Chosen by the error of the
# next request over one half of the recorded conversations, and looked at over the other
# (integration_tests/test_anchored_counts.py).
_DRIFT, _NOISE = 0.02, 0.004


class _Deviations(NamedTuple):
    """Standard deviations of the factors; of the hidden tokens in tokens."""

    common: float
    data: float
    tool: float
    own: float
    scripts: float
    schemas: float
    hidden: float


_FIRST = _Deviations(0.25, 0.10, 0.25, 0.10, 0.30, 0.20, 60.0)
_KEPT = _Deviations(0.03, 0.05, 0.10, 0.03, 0.10, 0.06, 30.0)

# Replies that fit each other worse than this were not all made from the requests that are compared.
_MOST_SPREAD = 0.10
REPLIES_TO_TRUST = 3
"""Replies after which an estimate may be lowered, and is known to be near."""


class TokensByKind(NamedTuple):
    """Tokens of a message, or of several, by kind of content.

    Attributes:
        prose: Of words in Latin letters.
        data: Of code, data and markup.
        scripts: Of other scripts, accents and symbols beyond ASCII.
        tool_prose: Of words in Latin letters in calls of tools and their results.
        tool_data: Of code, data and markup in calls of tools and their results.
        other: Of what is counted by rules and not by a vocabulary: frames, media.
    """

    prose: float = 0.0
    data: float = 0.0
    scripts: float = 0.0
    tool_prose: float = 0.0
    tool_data: float = 0.0
    other: float = 0.0


def sum_by_kind(parts: Iterable[TokensByKind]) -> TokensByKind:
    """Return the tokens of several messages or texts by kind."""
    return TokensByKind(*map(sum, zip(*parts, strict=True)))


class Factors(NamedTuple):
    """Corrections of estimated tokens.

    Attributes:
        prose: Factor on words in Latin letters.
        data: Factor on code, data and markup.
        scripts: Factor on everything beyond ASCII.
        tool_prose: Factor on words in Latin letters in calls of tools and their results.
        tool_data: Factor on code, data and markup in calls of tools and their results.
        tools: Factor on tool schemas.
        hidden: Tokens that the provider adds to every request.
    """

    prose: float = 1.0
    data: float = 1.0
    scripts: float = 1.0
    tool_prose: float = 1.0
    tool_data: float = 1.0
    tools: float = 1.0
    hidden: float = 0.0

    def tokens(self, message: TokensByKind) -> int:
        """Return the corrected tokens of a message."""
        *texts, other = message
        return round(_dot(texts, self[: len(texts)]) + other)


NO_CORRECTION = Factors()

UNSEEN_KINDS = Factors(scripts=1.25, tool_prose=1.05, tool_data=1.05)
"""Factors before the first reply that tells of a kind, on the safe side. Beyond ASCII o200k is the
finest vocabulary: cl100k has 1.3 to 2 times its tokens for texts of other scripts. Calls and
results may be dearer by up to 15 %; a third of it
keeps both ends near: found on one half of the recordings."""

_DATA = (Factors._fields.index("data"), Factors._fields.index("tool_data"))
_TOOL = (Factors._fields.index("tool_prose"), Factors._fields.index("tool_data"))


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
        *texts, _ = self.messages
        return (*texts, self.tools, 1.0)

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
    start = kept or UNSEEN_KINDS
    deviations = _KEPT if kept else _FIRST
    factors, used = _filtered(reports[-REPLIES:], start, limit, deviations)
    if factors[-1] < 0:
        # Nothing is hidden: what is left over belongs to the other factors.
        start = start._replace(hidden=0.0)
        deviations = deviations._replace(hidden=0.0)
        factors, used = _filtered(reports[-REPLIES:], start, limit, deviations)
    if not used:
        return kept or NO_CORRECTION
    *scales, hidden = factors
    scales = [min(MOST_FACTOR, max(LEAST_FACTOR, scale)) for scale in scales]
    is_sure = kept is not None or len(used) >= REPLIES_TO_TRUST
    if not is_sure or _spread(used, [*scales, hidden]) > _MOST_SPREAD:
        scales = [max(1.0, scale) for scale in scales]
    rounded = [round(round(scale / STEP) * STEP, 4) for scale in scales]
    return Factors._make([*rounded, round(hidden)])


def _filtered(
    reports: Sequence[ReportedRequest],
    start: Factors,
    limit: int | None,
    deviations: _Deviations,
) -> tuple[list[float], list[ReportedRequest]]:
    """Return the factors after the reports, and the reports that could be used."""
    factors, used = list(start), []
    unsure = _first_covariance(deviations)
    for report in reports:
        estimated = _dot(factors, report.estimate) + report.messages.other
        if not report.is_plausible() or (limit is not None and estimated > limit):
            continue
        used.append(report)
        for index in range(len(factors) - 1):
            unsure[index][index] += _DRIFT**2
        _correct(factors, unsure, report)
    return factors, used


def _first_covariance(by: _Deviations) -> list[list[float]]:
    """Return how unsure the factors are before the first report, each with each."""
    own = Factors(by.own, by.own, by.scripts, by.own, by.own, by.schemas, by.hidden)
    unsure = [[by.common**2] * (len(own) - 1) + [0.0] for _ in own[:-1]] + [[0.0] * len(own)]
    for names, deviation in ((_DATA, by.data), (_TOOL, by.tool)):
        for i in names:
            for j in names:
                unsure[i][j] += deviation**2
    for i, deviation in enumerate(own):
        unsure[i][i] += deviation**2
    return unsure


def _correct(factors: list[float], unsure: list[list[float]], report: ReportedRequest) -> None:
    """Move the factors towards one report, in proportion to how unsure each of them is."""
    estimate = report.estimate
    rest = report.tokens - report.messages.other - _dot(factors, estimate)
    gains = [_dot(row, estimate) for row in unsure]
    total = _dot(gains, estimate) + (_NOISE * report.tokens) ** 2
    for i in range(len(factors)):
        factors[i] += gains[i] * rest / total
        for j in range(len(factors)):
            unsure[i][j] -= gains[i] * gains[j] / total


def _spread(reports: Sequence[ReportedRequest], factors: Sequence[float]) -> float:
    """Return the largest relative error of the factors over the reports."""
    return max(
        abs(_dot(factors, report.estimate) + report.messages.other - report.tokens) / report.tokens
        for report in reports
    )


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return float(sum(map(mul, left, right)))

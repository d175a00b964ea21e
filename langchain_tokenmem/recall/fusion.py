"""Score fusion of lexical and dense rankings: normalisation, floor, boosts, near-duplicates."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from langchain_tokenmem.core.search_units import IndexSource
from langchain_tokenmem.recall.dates import NamedDate, NamedSpan
from langchain_tokenmem.recall.words import Scores, Units, Weights

_SHINGLE = 3
"""Words of a shingle."""

_MANY, _MANY_ALONE = 200, 25
"""Half of very many terms in a message, if several of a question match, and if one does.

A message of `_MANY` terms is expected to contain one term of any question by chance.
"""

_MANY_UNITS = 200
"""Half of very many units of a scope."""

_ALONE_AT_LEAST = 0.37
"""Fraction of `strong_share` that a single term needs at least: one of a few, if it is rare."""

_FAR = -2.0
"""Placeholder for an unknown cosine, below every real one."""

_ALIKE = 0.8
"""Jaccard similarity of shingles from which two texts may be near-duplicates."""


@dataclass(frozen=True)
class Floor:
    """Minimum that messages must have in common with a question, measured on raw signals.

    Normalised scores cannot be used: the best of a hundred unrelated messages has 1. One message
    that is good enough opens the gate for the question; then nearly all of its ranking counts. A
    strict floor for each message would lose up to eleven points of the evidence on LoCoMo
    (docs/recall.md).

    By words there are three ways to open the gate. (1) Count the question's terms in a message,
    less one, and less its length / 200 (at most 1), which is what a long text has by chance. What
    is left, times the matched share of the question's weight (IDF), times the share of that weight
    that occurs in the scope, must be at least `share` times length / (200 + length). (2) A single
    term is enough if it carries much of the question's weight. (3) Several terms are enough if they
    carry `strong_share` of it together. By meaning, the gate opens when the cosine of a message is
    high enough. All numbers were chosen with benchmarks/recall_talks.py.

    Attributes:
        share: Threshold of (1) for a very long message; lower for a shorter one.
        strong_share: Threshold of (3), and of (2) if both the message and the scope are long. In
            short messages and small scopes (2) needs less, down to 37 % of it.
        cosine: Cosine from which meaning alone is enough; None opens the gate for every question.
        each_share: Least share of a message that is not near in meaning.
        each_cosine: Least cosine of a message that matches no words.
    """

    share: float = 0.5
    strong_share: float = 0.65
    cosine: float | None = 0.3
    each_share: float = 0.01
    each_cosine: float = 0.1


@dataclass(frozen=True)
class Ranking:
    """Units by score, best first; the newest first if scores are equal.

    Attributes:
        units: Numbers of the units.
        scores: 0 to 1, before boosts.
        shares: Share of the question's weight (IDF) that each matches.
        cosines: Cosine by unit, if known.
        over_floor: The units that are good enough themselves to open the gate.
    """

    units: Units
    scores: Weights
    shares: Weights
    cosines: Mapping[int, float]
    over_floor: frozenset[int] = frozenset()


def fused(
    words: Scores,
    meaning: Sequence[tuple[int, float]],
    *,
    lexical_weight: float,
    dense_weight: float,
    floor: Floor,
    lacking: Collection[int] = (),
) -> Ranking:
    """Merge two rankings, each normalised to 0..1 (min-max) before it is weighted.

    Without vectors, the score by words is used alone. Units below the floor are left out.

    Args:
        words: Units that match by words.
        meaning: Units with their cosines.
        lexical_weight: Weight of the normalised score by words.
        dense_weight: Weight of the normalised cosines.
        floor: The least that units must have in common with the question.
        lacking: Units without a vector yet: their words count with both weights, so that they are
            not at a disadvantage.
    """
    cosines = dict(meaning)
    units = words.units
    if cosines:
        units = np.union1d(units, np.array(sorted(cosines), dtype=np.int64))
    values, shares = np.zeros(len(units)), np.zeros(len(units))
    at = np.searchsorted(units, words.units)
    shares[at] = words.shares
    values[at] = _normalised(words.values, from_zero=True)
    similarity = np.full(len(units), _FAR)
    if cosines:
        is_lacking = np.isin(units, list(lacking))
        values *= np.where(is_lacking, lexical_weight + dense_weight, lexical_weight)
        where = np.searchsorted(units, np.array(list(cosines), dtype=np.int64))
        similarity[where] = list(cosines.values())
        values[where] += dense_weight * _normalised(similarity[where], from_zero=False)
    is_near = similarity >= (_FAR if floor.cosine is None else floor.cosine)
    is_near &= similarity > _FAR
    matching = words.units[_matching(floor, words)]
    over_floor = frozenset([*matching.tolist(), *units[is_near].tolist()])
    if not over_floor:
        return Ranking(units[:0], values[:0], shares[:0], cosines)
    keep = _kept(floor, shares, similarity)
    units, values, shares = units[keep], values[keep], shares[keep]
    order = np.lexsort((-units, -values))
    return Ranking(units[order], values[order], shares[order], cosines, over_floor)


def _normalised(values: Weights, *, from_zero: bool) -> Weights:
    if not len(values):
        return values
    low = 0.0 if from_zero else float(values.min())
    spread = float(values.max()) - low
    return (values - low) / spread if spread > 0 else np.ones(len(values))


def _grown(size: Weights | int, half_way: int) -> Weights:
    """Return a size on a scale from nothing (0) to very much (1)."""
    return np.asarray(size / (size + half_way))


def _matching(floor: Floor, words: Scores) -> NDArray[np.bool_]:
    """Return which units open the gate by their words."""
    further = words.counts - 1 - np.minimum(words.lengths / _MANY, 1)
    least = floor.share * _grown(words.lengths, _MANY)
    passes = (further > 0) & (further * words.known * words.shares >= least)
    size = np.minimum(_grown(words.lengths, _MANY_ALONE), _grown(words.scope, _MANY_UNITS))
    alone = floor.strong_share * np.maximum(_ALONE_AT_LEAST, size)
    passes |= (words.counts > 0) & (words.known * words.strongest >= alone)
    return np.asarray(passes | ((words.counts > 1) & (words.shares >= floor.strong_share)))


def _kept(floor: Floor, shares: Weights, similarity: Weights) -> NDArray[np.bool_]:
    """Return which units the ranking keeps once the gate is open."""
    nearest = _FAR if floor.cosine is None else floor.each_cosine
    by_words = (shares >= floor.each_share) & (shares > 0)
    return np.asarray(by_words | ((similarity > _FAR) & (similarity >= nearest)))


@dataclass(frozen=True)
class Boosts:
    """Boosts of a score, tuned on the dev half of LoCoMo; 0 turns one off.

    Attributes:
        speaker: Added to the factor for messages of the one speaker whom the question names.
        date: Added to the factor for messages of a date that the question names.
        order: Added to the factor for the latest of the candidates, or the first, if the question
            asks for that one; for the others less, in their order.
    """

    speaker: float = 0.5
    date: float = 0.3
    order: float = 0.3


def boost_of(
    source: IndexSource,
    speakers: Iterable[str],
    dates: Sequence[NamedDate | NamedSpan],
    boosts: Boosts,
) -> float:
    """Return the factor of a message's score."""
    factor = 1.0
    if source.name is not None and source.name in set(speakers):
        factor += boosts.speaker
    if any(date.fits(source.created_at) for date in dates):
        factor += boosts.date
    return factor


class DuplicateFilter:
    """Filters near-duplicates: texts with the same meaning in nearly the same words.

    Near-duplicates share most of their shingles and all words that carry meaning: "the price is 40"
    and "the price is 45" are not near-duplicates.
    """

    def __init__(self, harmless: Iterable[str] = ()) -> None:
        self._harmless = frozenset(harmless)
        self._seen: dict[frozenset[str], list[Sequence[str]]] = {}

    def is_new(self, words: Sequence[str]) -> bool:
        """Return whether a text is not a near-duplicate of an earlier one, and remember it."""
        alike = self._seen.setdefault(frozenset(words) - self._harmless, [])
        if any(_likeness(words, theirs) >= _ALIKE for theirs in alike):
            return False
        alike.append(words)
        return True


def _likeness(words: Sequence[str], others: Sequence[str]) -> float:
    own, theirs = _shingles(words), _shingles(others)
    return len(own & theirs) / len(own | theirs)


def _shingles(words: Sequence[str]) -> frozenset[tuple[str, ...]]:
    last = max(1, len(words) - _SHINGLE + 1)
    return frozenset(tuple(words[at : at + _SHINGLE]) for at in range(last))

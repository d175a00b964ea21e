"""`LexicalIndex`: search by words, with BM25F over a message's own words and its neighbours'.

Robertson, Zaragoza and Taylor, "Simple BM25 extension to multiple weighted fields" (2004). The
field of the neighbours is not stored: a posting is spread to the messages around it at query time,
so nothing has to be rewritten when a new message arrives.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from langchain_tokenmem.core.argument_checks import checked
from langchain_tokenmem.core.search_units import MOST_PARTS, PART_BITS, SEQ_BITS, Scope
from langchain_tokenmem.recall.analysis import TextAnalyser
from langchain_tokenmem.storage.index_reader import IndexReader
from langchain_tokenmem.storage.transcript_store import TranscriptStore

Units = NDArray[np.int64]
Weights = NDArray[np.float64]
Posting = tuple[int, int, int, int]
"""Unit, occurrences of the term, length of the unit in terms, and whether the unit elaborates."""

_READ = 2_000
"""Maximum postings that are read completely, those of the rarest terms first."""

_CANDIDATES = 60
"""Best of these units, for which common terms are looked up."""

_LEAST_UNITS = 100
_LEAST_LENT = 0.05
_BELOW_OWN = 0.95
"""Maximum that neighbours lend of a term, where its weakest own occurrence is 1: so neighbours
alone never rank a message before one that has the words itself."""

_SEQ_MASK = (1 << SEQ_BITS) - 1

# The parameters of BM25F, the same for every kind of conversation (docs/recall.md).
_K1 = 0.9
"""Saturation of the term frequency."""

_B = 0.5
"""Length normalisation, 0 to 1."""

NEIGHBOURS = 10
"""Maximum number of neighbours on each side."""

_NEIGHBOUR_WEIGHT = 0.6
"""Weight of a neighbour's word at zero distance; an own word has 1."""

_REACH = 60.0
"""Terms between two messages over which that weight falls to 1/e: in chats of short messages ten
neighbours count, with long messages hardly one."""

_ELABORATION = 0.5
"""Factor of the score of every part of a long answer. A question about what was said usually means
what the user stated, not the assistant's pages on it."""


def neighbour_weights(average: float) -> list[float]:
    """Return the weights of neighbours by distance, if units have `average` terms."""
    weights = (
        _NEIGHBOUR_WEIGHT * math.exp(-distance * average / _REACH)
        for distance in range(1, NEIGHBOURS + 1)
    )
    return [weight for weight in weights if weight >= _LEAST_LENT]


@dataclass(frozen=True)
class Scores:
    """The units that match a question, themselves or by a neighbour's words.

    Attributes:
        units: Their numbers, ascending; a neighbour's may be that of no message.
        values: Their scores.
        shares: Share of the question's weight (IDF) that each matches; a neighbour's word counts
            with the neighbour's weight.
        strongest: The largest share of a single term that the unit contains itself; 0 if it has
            none.
        counts: How many of the question's terms each one contains itself.
        lengths: How many terms each one has; 0 if only its neighbours match.
        known: Share of the question's weight that occurs anywhere in the scope.
        scope: How many units the scope has.
        unknown: Terms of the question that do not occur in the scope.
        having: The units that contain a term themselves, by term in the question's order.
    """

    units: Units
    values: Weights
    shares: Weights
    strongest: Weights
    counts: Weights
    lengths: Weights
    known: float = 0.0
    scope: int = 0
    unknown: frozenset[str] = frozenset()
    having: Mapping[str, frozenset[int]] = field(default_factory=dict)

    def terms_of(self, unit: int) -> tuple[str, ...]:
        """Return the terms of the question that a unit itself contains, in the question's order."""
        return tuple(term for term, units in self.having.items() if unit in units)


def idf(count: float, units: int) -> float:
    """Return the weight of a term that `count` of `units` have (Lucene's form: never negative)."""
    return math.log(1 + (units - count + 0.5) / (count + 0.5))


def _share(count: int, units: int) -> float:
    """Return the weight of a term in the share of the question that a unit matches.

    A term that does not occur weighs as much as one that occurs once. A short history counts as a
    sample of 100 units, of which a single one has what all of its few messages have.
    """
    sampled = count * min(1.0, units / _LEAST_UNITS)
    return idf(max(sampled, 1.0), max(units, _LEAST_UNITS))


def score(
    postings: Mapping[str, Sequence[Posting]],
    counts: Mapping[str, int],
    units: int,
    average: float,
) -> Scores:
    """Return the score of every unit that has a term, or whose neighbour has one.

    Args:
        postings: Rows of each term.
        counts: How many units have each term of the question; 0 for those that do not occur.
        units: How many units the scope has.
        average: Mean length of a unit, in terms.
    """
    terms = [term for term, rows in postings.items() if rows]
    if not terms:
        empty = np.zeros(0)
        return Scores(np.zeros(0, dtype=np.int64), empty, empty, empty, empty, empty)
    rows = np.array([row for term in terms for row in postings[term]], dtype=np.int64)
    of = np.repeat(np.arange(len(terms)), [len(postings[term]) for term in terms])
    found = _reached(rows, of, average)
    number, own = len(found.units), found.own

    shares = {name: _share(min(count, units), units) for name, count in counts.items()}
    whole = max(sum(shares.values()), 1e-9)
    weights = np.array([shares[term] for term in terms])[found.term] / whole
    rarity = np.array([idf(min(counts[term], units), units) for term in terms])[found.term]
    values = _sums(found.at, rarity * found.frequency)
    long_answers = rows[rows[:, 3] > 0, 0] >> PART_BITS
    values[np.isin(found.units >> PART_BITS, long_answers)] *= _ELABORATION
    strongest, lengths = np.zeros(number), np.zeros(number)
    np.maximum.at(strongest, found.at[own], weights[own])
    lengths[found.at[own]] = rows[:, 2]
    unknown = frozenset(name for name, count in counts.items() if count <= 0)
    return Scores(
        found.units,
        values,
        _sums(found.at, weights * found.share),
        strongest,
        np.bincount(found.at[own], minlength=number).astype(np.float64),
        lengths,
        known=1 - math.fsum(shares[name] for name in unknown) / whole,
        scope=units,
        unknown=unknown,
        having={
            name: frozenset(row[0] for row in postings[name])
            for name in counts
            if postings.get(name)
        },
    )


def _sums(places: Units, summands: Weights, number: int = 0) -> Weights:
    return np.bincount(places, summands, number).astype(np.float64)


class _Reach(NamedTuple):
    """How much terms count in the units that have them and in their neighbours.

    Attributes:
        units: The units, ascending.
        term: Number of the term, for each pair of a term and a unit that it reaches.
        at: Place of the unit in `units`, for each pair.
        frequency: The saturated frequency of the term there.
        share: 1 where the unit has the term itself; else the weight of the neighbour that has it.
        own: Pairs of the postings, in their order.
    """

    units: Units
    term: Units
    at: Units
    frequency: Weights
    share: Weights
    own: Units


def _reached(rows: Units, of: Units, average: float) -> _Reach:
    """Return how much terms count in which units.

    Args:
        rows: Postings, one per row.
        of: Number of the term of each.
        average: Mean length of a unit, in terms.
    """
    weight = rows[:, 1] / (1 - _B + _B * rows[:, 2] / max(average, 1e-9))
    weakest = np.full(of[-1] + 1, np.inf)
    np.minimum.at(weakest, of, weight)

    # A message lends the count of its best part, and borrows at its first part.
    messages, at = np.unique((rows[:, 0] >> PART_BITS) << PART_BITS, return_inverse=True)
    pairs, at = np.unique(of * len(messages) + at, return_inverse=True)
    strength = np.zeros(len(pairs))
    np.maximum.at(strength, at, weight)
    term, lender = pairs // len(messages), messages[pairs % len(messages)]
    seq = (lender >> PART_BITS) & _SEQ_MASK
    terms, reached, lent, shares = [of], [rows[:, 0]], [weight[:0]], [weight[:0]]
    for distance, part in enumerate(neighbour_weights(average), 1):
        for step in (-distance, distance):
            is_there = (seq + step >= 1) & (seq + step <= _SEQ_MASK)
            terms.append(term[is_there])
            reached.append(lender[is_there] + step * MOST_PARTS)
            lent.append(part * strength[is_there])
            shares.append(np.full(len(lent[-1]), part))

    units, at = np.unique(np.concatenate(reached), return_inverse=True)
    pairs, at = np.unique(np.concatenate(terms) * len(units) + at, return_inverse=True)
    own, near = at[: len(rows)], at[len(rows) :]
    term = pairs // len(units)
    borrowed = _sums(near, np.concatenate(lent), len(pairs))
    frequency = np.minimum(borrowed, _BELOW_OWN * weakest[term])
    frequency[own] += weight
    frequency *= (_K1 + 1) / (_K1 + frequency)
    share = np.zeros(len(pairs))
    np.maximum.at(share, near, np.concatenate(shares))
    share[own] = 1
    return _Reach(units, term, pairs % len(units), frequency, share, own)


class LexicalIndex:
    """Search by words in the index that a store maintains of its transcripts.

    It attaches its analyser to the store: from then on every append writes its index entries in
    its own transaction. Earlier messages are indexed when they are first searched. IDF is computed
    per scope, so that no user's words affect another user's search.

    In a very long history, the postings of rare terms are read completely, and common terms are
    looked up for the best candidates only. If all terms are common, the newest messages are read.

    Args:
        store: The transcripts.
        analyser: Produces the terms; default: `TextAnalyser()` for English.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> from langchain_tokenmem import TranscriptStore
        >>> with TranscriptStore("sqlite://") as store:
        ...     index = LexicalIndex(store)
        ...     _ = store.add("s1", [HumanMessage("The key is under the mat.")])
        ...     scores = index.search("Where is the key?", Scope("s1"))
        >>> [scores.terms_of(unit) for unit in scores.units.tolist()][0]
        ('key',)
    """

    def __init__(self, store: TranscriptStore, *, analyser: TextAnalyser | None = None) -> None:
        self.analyser = analyser or TextAnalyser()
        self._store = checked(store, TranscriptStore, "store", "Recall(TranscriptStore())")
        store.index.attach(self.analyser)

    def __repr__(self) -> str:
        return f"LexicalIndex({self._store!r})"

    def search(self, query: str, scope: Scope) -> Scores:
        """Return the units that match a question.

        Raises:
            ScopeError: When the scope is invalid.
        """
        self.index(scope)
        with self._store.index.reading(scope) as reader:
            return self.scores(query, reader) if reader is not None else _nothing()

    def index(self, scope: Scope | None = None) -> int:
        """Index the messages that are not indexed yet; return how many."""
        return self._store.index.index_lexical(scope)

    def scores(
        self,
        query: str,
        reader: IndexReader,
        *,
        among: Collection[str] | None = None,
        exclude: Collection[str] = frozenset(),
    ) -> Scores:
        """Return the units that match a question in the scope of a reader.

        Messages that may not be found neither count as neighbours nor make a term known: often the
        question itself is already in the transcript.
        """
        terms = self.analyser.query_terms(query)
        units, length = reader.totals()
        if not terms or not units:
            return _nothing()
        average = length / units
        if units * len(terms) <= _READ:  # read every posting, without counting them first
            read = reader.postings(terms, _READ)
            counts = {term: len(rows) for term, rows in read.items()}
            common: Sequence[str] = ()
        else:
            counts = reader.counts(terms)
            rare, common = _divided(counts)
            read = reader.postings(rare, _READ)
        found = _allowed(read, reader, among, exclude)
        for term, rows in read.items():
            counts[term] -= len(rows) - len(found[term])
        counts = {term: counts.get(term, 0) for term in terms}
        if common:
            places = best_units(score(found, counts, units, average), _CANDIDATES)
            nearby = _with_neighbours(places, len(neighbour_weights(average)))
            found |= _allowed(reader.postings_of(common, nearby), reader, among, exclude)
        return score(found, counts, units, average)


def _divided(counts: Mapping[str, int]) -> tuple[list[str], list[str]]:
    """Return the terms that are read completely, and those that are looked up afterwards."""
    left = _READ
    rare: list[str] = []
    by_rarity = sorted(counts, key=lambda term: (counts[term], term))
    for term in by_rarity:
        if rare and counts[term] > left:
            break
        rare.append(term)
        left -= counts[term]
    return rare, by_rarity[len(rare) :]


def _allowed(
    found: Mapping[str, Sequence[Posting]],
    reader: IndexReader,
    among: Collection[str] | None,
    exclude: Collection[str],
) -> dict[str, Sequence[Posting]]:
    """Return the postings of messages that may be found."""
    if among is None and not exclude:
        return dict(found)
    units = sorted({row[0] for rows in found.values() for row in rows})
    there = {*reader.filter_units(units, among, exclude)}
    return {term: [row for row in rows if row[0] in there] for term, rows in found.items()}


def best_units(scores: Scores, most: int) -> list[int]:
    """Return the best units by score; the newer ones first if scores are equal."""
    order = np.lexsort((-scores.units, -scores.values))[:most]
    return [int(unit) for unit in scores.units[order]]


def _with_neighbours(units: Sequence[int], neighbours: int) -> list[int]:
    """Return the units and the first parts of their neighbours."""
    found = set(units)
    for unit in units:
        first = (unit >> PART_BITS) << PART_BITS
        found.update(first + step * MOST_PARTS for step in range(-neighbours, neighbours + 1))
    return sorted(number for number in found if number >= 0)


def _nothing() -> Scores:
    return score({}, {}, 0, 1.0)

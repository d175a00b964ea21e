"""`LexicalIndex`: BM25 search over the postings of a store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from langchain_tokenmem.core.argument_checks import checked
from langchain_tokenmem.core.search_units import MOST_PARTS, PART_BITS, Scope
from langchain_tokenmem.recall.lexical.analysis import TextAnalyser
from langchain_tokenmem.recall.lexical.bm25 import Bm25, Posting, Scores, TermWeight, score
from langchain_tokenmem.storage.search_index.reader import IndexReader
from langchain_tokenmem.storage.transcript_store import TranscriptStore


@dataclass(frozen=True)
class ReadLimits:
    """Limits of what a question may read, so that it is answered in time.

    Attributes:
        postings: Postings that are read whole, of the rarest terms first.
        candidates: Best units of these, for which the common terms are looked up.
    """

    postings: int = 2_000
    candidates: int = 60


class LexicalIndex:
    """Search by words in the index that a store keeps of its transcripts.

    It attaches its analyser to the store: from then on every append writes its index entries in
    its own transaction. What was said before is indexed when it is first asked for. Statistics
    are those of the scope that asks, so that nobody's words weigh in another's search.

    A question of common words over a very long history reads the rare ones whole and looks the
    common ones up for the best candidates only; of a term that is rare nowhere the newest
    messages are read.

    Args:
        store: The transcripts.
        analyser: Makes the terms; default: `TextAnalyser()` for English.
        parameters: Of the formula.
        effort: How much a question may read.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> from langchain_tokenmem import TranscriptStore
        >>> with TranscriptStore("sqlite://") as store:
        ...     index = LexicalIndex(store)
        ...     _ = store.add("s1", [HumanMessage("The key is under the mat.")])
        ...     len(index.search("Where is the key?", Scope("s1")).units)
        1
    """

    def __init__(
        self,
        store: TranscriptStore,
        *,
        analyser: TextAnalyser | None = None,
        parameters: Bm25 | None = None,
        effort: ReadLimits | None = None,
    ) -> None:
        self.analyser = analyser or TextAnalyser()
        self.parameters = parameters or Bm25()
        self.effort = effort or ReadLimits()
        self._store = checked(store, TranscriptStore, "store", "Recall(TranscriptStore())")
        store.index.attach(self.analyser)

    def search(self, query: str, scope: Scope) -> Scores:
        """Return what matches a question, by number of the unit.

        Raises:
            ScopeError: When the scope is none.
        """
        self.index(scope)
        with self._store.index.reading(scope) as reader:
            return self.scores(query, reader) if reader is not None else _nothing()

    def index(self, scope: Scope | None = None) -> int:
        """Index what was said before the index was there; return how many messages."""
        return self._store.index.index_lexical(scope)

    def scores(
        self,
        query: str,
        reader: IndexReader,
        *,
        among: Collection[str] | None = None,
        exclude: Collection[str] = frozenset(),
    ) -> Scores:
        """Return what matches a question in the scope of a reader.

        Messages that may not be found lend no words and make no term known: the question itself
        often is in the transcript already.
        """
        terms = self.analyser.query_terms(query)
        units, length = reader.totals()
        if not terms or not units:
            return _nothing()
        counts = reader.counts(terms)
        average = length / units
        rare, common = self._divided(counts)
        read = reader.postings(rare, self.effort.postings)
        found = _allowed(read, reader, among, exclude)
        for term, rows in read.items():
            counts[term] -= len(rows) - len(found[term])
        weights = {term: TermWeight.of(counts.get(term, 0), units) for term in terms}
        if common:
            places = best_units(
                score(found, weights, average, self.parameters), self.effort.candidates
            )
            nearby = _with_neighbours(places, self.parameters.neighbours)
            found |= _allowed(reader.postings_of(common, nearby), reader, among, exclude)
        return score(found, weights, average, self.parameters)

    def _divided(self, counts: Mapping[str, int]) -> tuple[list[str], list[str]]:
        """Return the terms that are read whole, and those that are looked up afterwards."""
        left = self.effort.postings
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
    units = sorted({unit for rows in found.values() for unit, _, _ in rows})
    there = {*reader.filter_units(units, among, exclude)}
    return {term: [row for row in rows if row[0] in there] for term, rows in found.items()}


def best_units(scores: Scores, most: int) -> list[int]:
    """Return the best units: by score, the newer one where two are equal."""
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
    return score({}, {}, 1.0, Bm25())

"""Search in notes: the words of recall's analyser, BM25 and a floor, with a store's vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from langchain_tokenmem.core.search_units import PART_BITS
from langchain_tokenmem.notes.known_notes import KnownNote
from langchain_tokenmem.notes.note import Note
from langchain_tokenmem.recall.lexical.analysis import TextAnalyser
from langchain_tokenmem.recall.lexical.bm25 import Bm25, Posting, TermWeight, score
from langchain_tokenmem.recall.lexical.stop_words import NEGATIONS
from langchain_tokenmem.recall.ranking.dates import NamedDate, dates_in
from langchain_tokenmem.recall.ranking.fusion import Boosts, Floor, fused

NOTES_FLOOR = Floor(terms=2, share=0.12, strong_share=0.25, strict_share=0.25)
"""Least that notes must have in common with a question.

Found on LoCoMo's facts, checked on the chats of REALTALK with each line as a note
(benchmarks/notes_recall.py): of 200 unrelated questions 0.7 % and 2.5 % bring a note. A share of
0.15 costs 0.7 points of LoCoMo's evidence and changes nothing else; recall's strong share (0.22)
brings a note for 3.6 % of REALTALK's unrelated questions. One of two words is enough (0.25) where
no note has the other one, and only one has this.
"""

_BM25 = Bm25()
"""Recall's own. Notes that were written one after the other lend each other words: of two that
match alike the one comes first whose neighbours match, too. On LoCoMo that gives 3 points of the
evidence, on REALTALK 2."""

_ONE_TALK_S = 3_600.0
"""Seconds between two notes from which on they are of two talks, and lend each other nothing."""

_STEP = 1 << PART_BITS
_FAR_STEP = (_BM25.neighbours + 1) * _STEP
_DATE_BOOST = Boosts().date
_LEXICAL_WEIGHT, _DENSE_WEIGHT = 0.4, 0.6  # as recall has them


@dataclass(frozen=True)
class RankedNote:
    """A note that matches a question.

    Attributes:
        note: The note.
        score: 0 to about 1, comparable within one search only.
    """

    note: Note
    score: float


class NoteRanker:
    """Ranks notes by a question.

    Args:
        analyser: Makes the terms of questions.
        floor: What a note must at least have in common with a question.
    """

    def __init__(self, analyser: TextAnalyser, floor: Floor = NOTES_FLOOR) -> None:
        self._analyser = analyser
        self._floor = floor

    def ranked(
        self,
        notes: Sequence[KnownNote],
        question: str,
        cosines: Mapping[str, float] | None = None,
    ) -> list[RankedNote]:
        """Return the notes that match a question, best first; equal ones newest first.

        Args:
            notes: All notes of the scope.
            question: As it was asked.
            cosines: Similarity of the notes' vectors to the question's, by content, where the store
                has an index.
        """
        asked = self._analyser.query_terms(question)
        if not notes or self._analyser.harmless.union(NEGATIONS).issuperset(asked):
            return []  # a question of nothing but stop-words is about nothing
        by_unit = _units(notes)
        postings = _postings(by_unit, asked)
        weights = {term: TermWeight.of(len(postings[term]), len(notes)) for term in asked}
        average = max(1.0, sum(known.length for known in notes) / len(notes))
        near = [
            (unit, cosines[known.note.content])
            for unit, known in by_unit.items()
            if cosines and known.note.content in cosines
        ]
        # A neighbour moves a note up and never brings one that does not match itself.
        matching = {unit for rows in postings.values() for unit, _, _ in rows}.union(dict(near))
        ranking = fused(
            score(postings, weights, average, _BM25),
            near,
            lexical_weight=_LEXICAL_WEIGHT,
            dense_weight=_DENSE_WEIGHT,
            floor=self._floor,
        )
        dates = dates_in(question)
        ranked = [
            RankedNote(by_unit[unit].note, value * _boost(by_unit[unit].note, dates))
            for unit, value in zip(ranking.units.tolist(), ranking.scores.tolist(), strict=True)
            if unit in matching
        ]
        newest_first = sorted(ranked, key=lambda each: each.note.updated_at, reverse=True)
        return sorted(newest_first, key=lambda each: -each.score)


def _units(notes: Sequence[KnownNote]) -> dict[int, KnownNote]:
    """Return notes by the numbers that BM25 knows them by: those of one talk are neighbours."""
    by_unit: dict[int, KnownNote] = {}
    unit, before, level = 0, -_ONE_TALK_S, ""
    for known in sorted(notes, key=lambda known: known.place):
        is_near = known.note.type == level and known.written_s - before <= _ONE_TALK_S
        unit += _STEP if is_near else _FAR_STEP
        before, level = known.written_s, known.note.type
        by_unit[unit] = known
    return by_unit


def _postings(notes: Mapping[int, KnownNote], asked: Sequence[str]) -> dict[str, list[Posting]]:
    """Return the postings of a question's terms."""
    return {
        term: [
            (unit, known.terms[term], known.length)
            for unit, known in notes.items()
            if term in known.terms
        ]
        for term in asked
    }


def _boost(note: Note, dates: Sequence[NamedDate]) -> float:
    """Return the factor of a note's score: a note of a date that the question names moves up."""
    return 1 + _DATE_BOOST * any(date.fits(note.updated_at) for date in dates)

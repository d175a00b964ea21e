"""Search in notes: the words of recall's analyser, BM25 and a floor, with a store's vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Self

from langchain_tokenmem.core.search_units import PART_BITS
from langchain_tokenmem.notes.known_notes import KnownNote
from langchain_tokenmem.notes.note import Note
from langchain_tokenmem.recall.analysis import NEGATIONS, TextAnalyser
from langchain_tokenmem.recall.dates import NamedDate, dates_in
from langchain_tokenmem.recall.fusion import Boosts, Floor, fused
from langchain_tokenmem.recall.words import Bm25, Posting, TermWeight, score

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
class _Matches:
    """Notes as BM25 knows them, and which of them have the terms of some questions.

    Attributes:
        by_unit: The notes by their numbers.
        postings: Of each term.
        average_length: Mean number of a note's terms.
    """

    by_unit: Mapping[int, KnownNote]
    postings: Mapping[str, Sequence[Posting]]
    average_length: float

    @classmethod
    def of(cls, notes: Sequence[KnownNote], terms: frozenset[str]) -> Self:
        """Return the matches of all terms among notes."""
        by_unit = _units(notes)
        postings: dict[str, list[Posting]] = {term: [] for term in terms}
        for unit, known in by_unit.items():
            for term in terms.intersection(known.terms):
                postings[term].append((unit, known.terms[term], known.length))
        return cls(by_unit, postings, max(1.0, sum(n.length for n in notes) / len(notes)))


class NoteRanker:
    """Ranks notes by a question.

    Args:
        analyser: Makes the terms of questions.
        floor: What a note must at least have in common with a question.
    """

    def __init__(self, analyser: TextAnalyser, floor: Floor = NOTES_FLOOR) -> None:
        self._analyser = analyser
        self._floor = floor

    def rankings(
        self,
        notes: Sequence[KnownNote],
        questions: Sequence[str],
        cosines: Mapping[str, float] | None = None,
    ) -> list[list[Note]]:
        """Return for each question the notes that match it, best first; equal ones newest first.

        The notes are gone through once for all questions.

        Args:
            notes: All notes of the scope.
            questions: As they were asked.
            cosines: Similarity of the notes' vectors to the first question's, by content, where the
                store has an index.
        """
        idle = self._analyser.harmless.union(NEGATIONS)
        asked = [self._analyser.query_terms(question) for question in questions]
        asked = [[] if idle.issuperset(terms) else terms for terms in asked]  # about nothing
        if not notes or not any(asked):
            return [[] for _ in questions]
        matches = _Matches.of(notes, frozenset().union(*asked))
        return [
            self._ranked(matches, question, terms, None if number else cosines) if terms else []
            for number, (question, terms) in enumerate(zip(questions, asked, strict=True))
        ]

    def _ranked(
        self,
        matches: _Matches,
        question: str,
        asked: Sequence[str],
        cosines: Mapping[str, float] | None,
    ) -> list[Note]:
        by_unit = matches.by_unit
        postings = {term: matches.postings[term] for term in asked}
        weights = {term: TermWeight.of(len(postings[term]), len(by_unit)) for term in asked}
        near = [
            (unit, cosines[known.note.content])
            for unit, known in by_unit.items()
            if cosines and known.note.content in cosines
        ]
        # A neighbour moves a note up and never brings one that does not match itself.
        matching = {unit for rows in postings.values() for unit, _, _ in rows}.union(dict(near))
        ranking = fused(
            score(postings, weights, matches.average_length, _BM25),
            near,
            lexical_weight=_LEXICAL_WEIGHT,
            dense_weight=_DENSE_WEIGHT,
            floor=self._floor,
        )
        dates = dates_in(question)
        scores = {
            unit: value * _boost(by_unit[unit].note, dates)
            for unit, value in zip(ranking.units.tolist(), ranking.scores.tolist(), strict=True)
            if unit in matching
        }
        newest_first = sorted(scores, key=lambda u: by_unit[u].note.updated_at, reverse=True)
        best_first = sorted(newest_first, key=lambda u: -scores[u])
        return [by_unit[unit].note for unit in best_first]


def _units(notes: Sequence[KnownNote]) -> dict[int, KnownNote]:
    """Return notes by the numbers that BM25 knows them by: those of one talk are neighbours."""
    by_unit: dict[int, KnownNote] = {}
    unit, before, level = 0, -_ONE_TALK_S, ""
    for known in sorted(notes, key=attrgetter("place")):
        is_near = known.note.type == level and known.written_s - before <= _ONE_TALK_S
        unit += _STEP if is_near else _FAR_STEP
        before, level = known.written_s, known.note.type
        by_unit[unit] = known
    return by_unit


def _boost(note: Note, dates: Sequence[NamedDate]) -> float:
    """Return the factor of a note's score: a note of a date that the question names moves up."""
    return 1 + _DATE_BOOST * any(date.fits(note.updated_at) for date in dates)

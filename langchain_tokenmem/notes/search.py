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

NOTES_FLOOR = Floor(terms=2, share=0.15, strong_share=0.25, strict_share=0.25)
"""Least that notes must have in common with a question.

Found on LoCoMo's facts, checked on the chats of REALTALK with each line as a note
(benchmarks/notes_recall.py): of 200 unrelated questions 0.7 % and 2.4 % bring a note. With recall's
own floor (0.2, 0.22) these were 0.8 % and 3.3 %, and 0.5 points less of LoCoMo's evidence came. One
of two words is enough (0.25) where no note has the other one, and only one has this.
"""

_BM25 = Bm25(neighbours=0)
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
        postings = _postings(notes, asked)
        weights = {term: TermWeight.of(len(postings[term]), len(notes)) for term in asked}
        average = max(1.0, sum(known.length for known in notes) / len(notes))
        near = [
            (place << PART_BITS, cosines[known.note.content])
            for place, known in enumerate(notes if cosines else ())
            if cosines and known.note.content in cosines
        ]
        ranking = fused(
            score(postings, weights, average, _BM25),
            near,
            lexical_weight=_LEXICAL_WEIGHT,
            dense_weight=_DENSE_WEIGHT,
            floor=self._floor,
        )
        found = (notes[int(unit) >> PART_BITS].note for unit in ranking.units)
        dates = dates_in(question)
        ranked = [
            RankedNote(note, float(value) * _boost(note, dates))
            for note, value in zip(found, ranking.scores, strict=True)
        ]
        newest_first = sorted(ranked, key=lambda each: each.note.updated_at, reverse=True)
        return sorted(newest_first, key=lambda each: -each.score)


def _postings(notes: Sequence[KnownNote], asked: Sequence[str]) -> dict[str, list[Posting]]:
    """Return the postings of a question's terms."""
    return {
        term: [
            (place << PART_BITS, known.terms[term], known.length)
            for place, known in enumerate(notes)
            if term in known.terms
        ]
        for term in asked
    }


def _boost(note: Note, dates: Sequence[NamedDate]) -> float:
    """Return the factor of a note's score: a note of a date that the question names moves up."""
    return 1 + _DATE_BOOST * any(date.fits(note.updated_at) for date in dates)

"""Search in notes: terms of recall's analyser, BM25 and a floor, and a store's vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache

from langchain_tokenmem.core.search_units import PART_BITS
from langchain_tokenmem.notes.note import Note
from langchain_tokenmem.recall.analysis import NEGATIONS, TextAnalyser
from langchain_tokenmem.recall.dates import MONTHS, NamedDate, NamedSpan, dates_in
from langchain_tokenmem.recall.fusion import Boosts, Floor, fused
from langchain_tokenmem.recall.words import NEIGHBOURS, Posting, score

NOTES_FLOOR = Floor(share=0.3)
"""Minimum that notes must have in common with a question; less than messages, as notes are chosen.

On LoCoMo's facts, and on the chats of REALTALK with each line as a note
(benchmarks/notes_recall.py), 0.7 % and 1.1 % of 200 unrelated questions find a note; recall's own
floor costs 1.7 points of LoCoMo's evidence.
"""

_KNOWN_TEXTS = 16_384
"""Notes whose terms are cached."""

_ONE_TALK_S = 3_600.0
"""Seconds between two notes after which they no longer count as neighbours."""

_STEP = 1 << PART_BITS
_FAR_STEP = (NEIGHBOURS + 1) * _STEP
"""Distance between notes that are not neighbours. Neighbours share their words: of two notes that
match equally, the one with matching neighbours ranks first. This finds 3 points more evidence
on LoCoMo, and 2 on REALTALK."""

_DATE_BOOST = Boosts().date
_LEXICAL_WEIGHT, _DENSE_WEIGHT = 0.4, 0.6  # the same as recall's


class NoteRanker:
    """Ranks notes by a question.

    Args:
        analyser: Produces the terms of notes and questions; those of notes are cached.
    """

    def __init__(self, analyser: TextAnalyser) -> None:
        self._analyser = analyser
        # For 1,000 notes, the terms take 300 ms, everything else in a search less than 20.
        self._terms = lru_cache(_KNOWN_TEXTS)(lambda text: Counter(analyser.terms(text)))

    def rankings(
        self,
        notes: Sequence[Note],
        questions: Sequence[str],
        cosines: Mapping[str, float] | None = None,
    ) -> list[list[Note]]:
        """Return for each question the notes that match it, best first; equal ones newest first.

        One pass over the notes serves all questions.

        Args:
            notes: All notes of the scope.
            questions: The questions as asked.
            cosines: Similarity of the notes' vectors to the first question's, by content, if
                the store has an index.
        """
        idle = self._analyser.harmless.union(NEGATIONS)
        asked = [self._analyser.query_terms(question) for question in questions]
        asked = [[] if idle.issuperset(terms) else terms for terms in asked]  # only stop-words
        if not notes or not any(asked):
            return [[] for _ in questions]
        by_unit = _units(notes)
        postings: dict[str, list[Posting]] = {term: [] for terms in asked for term in terms}
        total = 0
        for unit, note in by_unit.items():
            counts = self._terms(_searched_text(note))
            length = counts.total()
            total += length
            for term in postings.keys() & counts.keys():
                postings[term].append((unit, counts[term], length, 0))
        average = max(1.0, total / len(notes))
        return [
            self._ranked(
                by_unit,
                {term: postings[term] for term in terms},
                average,
                dates_in(question),
                {} if number else cosines or {},
            )
            for number, (question, terms) in enumerate(zip(questions, asked, strict=True))
        ]

    def _ranked(
        self,
        by_unit: Mapping[int, Note],
        postings: Mapping[str, Sequence[Posting]],
        average_length: float,
        dates: Sequence[NamedDate | NamedSpan],
        cosines: Mapping[str, float],
    ) -> list[Note]:
        """Return the notes that match one question, given the postings of its terms."""
        if not postings:
            return []
        counts = {term: len(rows) for term, rows in postings.items()}
        near = [
            (unit, cosines[note.content])
            for unit, note in by_unit.items()
            if note.content in cosines
        ]
        # A neighbour moves a note up, but never adds one that does not match itself.
        matching = {unit for rows in postings.values() for unit, *_ in rows}.union(dict(near))
        ranking = fused(
            score(postings, counts, len(by_unit), average_length),
            near,
            lexical_weight=_LEXICAL_WEIGHT,
            dense_weight=_DENSE_WEIGHT,
            floor=NOTES_FLOOR,
        )
        scores = {
            unit: value * _boost(by_unit[unit], dates)
            for unit, value in zip(ranking.units.tolist(), ranking.scores.tolist(), strict=True)
            if unit in matching
        }
        newest_first = sorted(scores, key=lambda u: by_unit[u].updated_at, reverse=True)
        best_first = sorted(newest_first, key=lambda u: -scores[u])
        return [by_unit[unit] for unit in best_first]


def _searched_text(note: Note) -> str:
    """Return the searched text of a note: its content, key, tags and date."""
    day = note.updated_at
    date = f"{day.day} {MONTHS[day.month - 1]} {day.year}"
    return "\n".join((note.content, note.key or "", *note.tags, date))


def _units(notes: Sequence[Note]) -> dict[int, Note]:
    """Return notes by their BM25 unit numbers: notes written in succession are neighbours."""
    by_unit: dict[int, Note] = {}
    unit, before, level = 0, -_ONE_TALK_S, ""
    for written_s, note in sorted(
        ((note.updated_at.timestamp(), note) for note in notes),
        key=lambda pair: (pair[1].type, pair[0]),
    ):
        is_near = note.type == level and written_s - before <= _ONE_TALK_S
        unit += _STEP if is_near else _FAR_STEP
        before, level = written_s, note.type
        by_unit[unit] = note
    return by_unit


def _boost(note: Note, dates: Sequence[NamedDate | NamedSpan]) -> float:
    """Return the factor of a note's score: notes of a date that the question names move up."""
    return 1 + _DATE_BOOST * any(date.fits(note.updated_at) for date in dates)

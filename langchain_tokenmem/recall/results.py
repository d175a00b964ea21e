"""Selects hits from a ranking: reads them, boosts, removes duplicates, and cuts to size."""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from langchain_tokenmem.core.search_units import PART_BITS, Hit, IndexSource, unpack_unit
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.recall.analysis import TextAnalyser
from langchain_tokenmem.recall.dates import NamedSpan, dates_in, order_in, without_times
from langchain_tokenmem.recall.fusion import Boosts, DuplicateFilter, Ranking, boost_of
from langchain_tokenmem.recall.text_parts import indexable_text, parts_of, passage_of
from langchain_tokenmem.recall.words import Scores, best_units
from langchain_tokenmem.storage.index_reader import IndexReader

logger = logging.getLogger(__name__)

Validate = Callable[[Hit], Hit | None]
"""An application's check of what is recalled: the hit, a changed one, or None."""

_POOL = 16
"""Additional units to read, so that boosts can move some of them up."""

_LARGEST_POOL = 300
"""Most units that are read because the question names a time, or asks for the first or latest."""

_MANY_WORDS = 20
"""Different words from which a message does not say more, for a question about a time."""

_OF_TIME = 0.6
"""Best score of what was said at the time; what names it has at most the rest of 1."""

_PERIODS = 10
"""Maximum periods of a span; the best message of each comes first."""

_WEIGHT_OF_ROLE = {"human": 1.5, "tool": 0.5}

LINE_TOKENS = 16
"""Tokens of the date and speaker before a message."""

_ALIKE_NAMES = 0.7
"""Similarity (`difflib`) of a misspelled name and the name: "Akim" and "Akib" have 0.75."""

_SHORT_NAME = 4
"""Minimum letters of a name that may be a misspelling."""

_MISFITS = 16
"""Successive hits that do not fit, after which `max_tokens` counts as filled."""


@dataclass(frozen=True)
class SearchOptions:
    """Options of one search, as `Recall.search` takes them."""

    k: int
    max_tokens: int | None
    exclude: Collection[str]
    among: Collection[str] | None
    metadata: Mapping[str, Any]
    count_tokens: Callable[[str], int]

    def __post_init__(self) -> None:
        if not isinstance(self.k, int):
            raise ConfigurationError(f"k is {self.k!r}; it is the number of hits, a whole number.")

    def allow(self, source: IndexSource) -> bool:
        """Return whether a text may be found, by its id; documents always may."""
        name = source.source_id
        is_asked = name not in self.exclude and (self.among is None or name in self.among)
        return source.role == "document" or is_asked


@dataclass(frozen=True)
class RankedUnit:
    """A unit of a ranking, which may become a hit."""

    unit: int
    score: float
    share: float
    cosine: float | None
    is_over_floor: bool


def best_parts(ranking: Ranking) -> Iterator[RankedUnit]:
    """Yield the best unit of each message, best first."""
    seen: set[int] = set()
    for at in range(len(ranking.units)):
        unit = int(ranking.units[at])
        if unit >> PART_BITS not in seen:
            seen.add(unit >> PART_BITS)
            score, share = float(ranking.scores[at]), float(ranking.shares[at])
            is_over = unit in ranking.over_floor
            yield RankedUnit(unit, score, share, ranking.cosines.get(unit), is_over)


class ResultSelection:
    """Selects the hits of one search.

    Args:
        analyser: Analyser for the words of a text.
        reader: A consistent view of the scope.
        query: The question.
        words: What matches it by words.
        options: Options of the search.
        boosts: Factors for a named speaker and a named date.
    """

    def __init__(
        self,
        analyser: TextAnalyser,
        reader: IndexReader,
        query: str,
        words: Scores,
        options: SearchOptions,
        boosts: Boosts,
    ) -> None:
        self._analyser = analyser
        self._reader = reader
        self._query = query
        self._words = words
        self._options = options
        self._boosts = boosts
        self._dates = dates_in(query, datetime.now(UTC))
        self._order = order_in(query)
        self._sources: dict[int, IndexSource | None] = {}

    def query_with_names(self) -> str:
        """Return the question with misspelled names of speakers corrected."""
        unknown = self._words.unknown
        if not unknown:
            return self._query
        self._read(best_units(self._words, 2 * _POOL))

        def is_unknown(word: str) -> bool:
            return unknown.issuperset(self._analyser.terms(word))

        return with_names(self._query, self._names(), is_unknown)

    def query_without_names(self) -> str:
        """Return the question without names of speakers, which do not help search by meaning."""
        self._read(best_units(self._words, 2 * _POOL))
        return without_names(self._query, sorted(self._names()))

    def allowed(self, units: Sequence[int]) -> list[int]:
        """Return those of some units that the search may find."""
        options = self._options
        there = self._reader.filter_units(units, options.among, options.exclude)
        if not options.metadata:
            return there
        if not options.metadata.keys() <= {"role", "name"}:
            there = self._reader.of_documents(there)  # a message has no other metadata
        sources = self._reader.sources(there)
        found = {unit: sources.get(unpack_unit(unit)[:2]) for unit in there}
        return [unit for unit, one in found.items() if one and _has(one, options.metadata)]

    def _names(self) -> set[str]:
        return {each.name for each in self._sources.values() if each is not None and each.name}

    def _read(self, units: Sequence[int]) -> None:
        missing = [unit for unit in units if unit not in self._sources]
        found = self._reader.sources(missing) if missing else {}
        for unit in missing:
            source = found.get(unpack_unit(unit)[:2])
            is_there = source and self._options.allow(source) and indexable_text(source)
            self._sources[unit] = source if is_there else None

    def select(self, ranking: Ranking) -> list[Hit]:
        """Return the hits, best first."""
        options, ranking = self._options, self._with_time(ranking)
        duplicates = DuplicateFilter(self._analyser.harmless)
        left = options.max_tokens
        hits: list[Hit] = []
        misfits = 0
        for each, source in self._candidates(best_parts(ranking), self._pool(ranking)):
            hit = self._hit(each, source)
            cost = 0 if left is None else options.count_tokens(hit.text) + LINE_TOKENS
            if left is not None and cost > left:
                misfits += 1
                if misfits > _MISFITS or left <= LINE_TOKENS:
                    break
                continue
            if not duplicates.is_new([hit.name or hit.role, *self._analyser.words(hit.text)]):
                continue
            left = None if left is None else left - cost
            misfits = 0
            hits.append(hit)
            if len(hits) == options.k:
                break
        return hits

    def _with_time(self, ranking: Ranking) -> Ranking:
        """Return the ranking for a question about a time alone: what was said then.

        What names the date comes after it; other words of such a question say nothing.
        """
        span = self._analyser.time_asked(self._query)
        then = {} if span is None else self._of_time(span)
        if not then:
            return ranking
        dates = {*self._analyser.terms(self._query)}
        dates -= {*self._analyser.terms(without_times(self._query))}
        scores = {unit: _OF_TIME * score for unit, score in then.items()}
        shares = dict.fromkeys(then, 0.0)
        for at in range(len(ranking.units)):
            unit = int(ranking.units[at])
            if unit not in then and not dates.isdisjoint(self._words.terms_of(unit)):
                scores[unit] = (1 - _OF_TIME) * float(ranking.scores[at])
                shares[unit] = float(ranking.shares[at])
        best = sorted(scores, key=lambda unit: (-scores[unit], -unit))
        values, own = ([found[unit] for unit in best] for found in (scores, shares))
        units, over = np.array(best, dtype=np.int64), ranking.over_floor
        return Ranking(units, np.array(values), np.array(own), {}, over)

    def _of_time(self, span: NamedSpan) -> dict[int, float]:
        """Return scores of messages from some days: 1 for the best of each period, then 1/2 ...

        A period is a day, or a tenth of a span of more than ten days. The best is the one that
        says most: what the user said counts 1.5 times, as in a search by words, and a tool's
        result half. Of many messages, some are looked at, evenly spread.
        """
        units = self._reader.units_between(span.first, span.last)
        if self._options.among is not None or self._options.metadata:
            units = self.allowed(units)
        step = max(1.0, len(units) / _LARGEST_POOL)
        chosen = [units[int(at * step)] for at in range(min(len(units), _LARGEST_POOL))]
        self._read(chosen)
        days = (span.last - span.first).days + 1
        periods: dict[int, list[tuple[float, int]]] = defaultdict(list)
        for unit in chosen:
            if source := self._sources[unit]:
                words = {*self._analyser.terms(source.text)} - self._analyser.harmless
                weight = min(len(words), _MANY_WORDS) * _WEIGHT_OF_ROLE.get(source.role, 1.0)
                day = (source.created_at.date() - span.first).days
                periods[day * min(days, _PERIODS) // days].append((weight, unit))
        return {
            unit: 1 / rank
            for period in periods.values()
            for rank, (_, unit) in enumerate(sorted(period, reverse=True), 1)
        }

    def _pool(self, ranking: Ranking) -> int:
        """Return how many units are sorted at once: those that a boost may move to the top."""
        size = self._options.k + _POOL
        boost = self._boosts.order if self._order else 0.0
        boost += self._boosts.date if self._dates else 0.0
        if not boost or not len(ranking.scores):
            return size
        least = ranking.scores[0] / (1 + boost)
        return max(size, min(int((ranking.scores >= least).sum()), _LARGEST_POOL))

    def _candidates(
        self, found: Iterator[RankedUnit], size: int
    ) -> Iterator[tuple[RankedUnit, IndexSource]]:
        """Yield the units that exist and are allowed, best first, pool by pool.

        Args:
            found: All units.
            size: Units of a pool.
        """
        while pool := list(islice(found, size)):
            self._read([each.unit for each in pool])
            there = [
                (each, source)
                for each in pool
                if (source := self._sources[each.unit]) is not None
                and _has(source, self._options.metadata)
            ]
            yield from sorted(
                self._boosted(there), key=lambda pair: (-pair[0].score, -pair[0].unit)
            )

    def _boosted(
        self, there: Sequence[tuple[RankedUnit, IndexSource]]
    ) -> Iterator[tuple[RankedUnit, IndexSource]]:
        speakers, asked = self._named_speakers(), self._asked_order([one for _, one in there])
        for each, source in there:
            factor = boost_of(source, speakers, self._dates, self._boosts)
            factor += self._boosts.order * asked.get(_moment(source), 0.0)
            yield replace(each, score=each.score * factor), source

    def _asked_order(self, sources: Sequence[IndexSource]) -> dict[tuple[datetime, int], float]:
        """Return 1 for the moment that the question asks for, latest or first, less for others.

        Empty if it asks for neither.
        """
        if self._order is None:
            return {}
        moments = sorted({*map(_moment, sources)}, reverse=self._order == "first")
        return {moment: at / max(1, len(moments) - 1) for at, moment in enumerate(moments)}

    def _named_speakers(self) -> set[str]:
        """Return the speaker whom the question names, if it is exactly one."""
        named = {
            name
            for name in self._names()
            if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", self._query, re.IGNORECASE)
        }
        return named if len(named) == 1 else set()

    def _hit(self, ranked: RankedUnit, source: IndexSource) -> Hit:
        parts = parts_of(indexable_text(source))
        number = min(unpack_unit(ranked.unit)[2], len(parts) - 1)
        text = source.text if len(parts) == 1 else passage_of(parts[number], self._matches)
        return Hit.of(
            source,
            score=ranked.score,
            text=text,
            part=number,
            parts=len(parts),
            document_id=source.document_id,
            lexical=ranked.share,
            cosine=ranked.cosine,
            terms=self._words.terms_of(ranked.unit),
            is_of_time=not ranked.share and ranked.cosine is None,
            is_over_floor=ranked.is_over_floor,
        )

    def _matches(self, sentence: str) -> bool:
        return not self._terms.isdisjoint(self._analyser.terms(sentence))

    @cached_property
    def _terms(self) -> frozenset[str]:
        return frozenset(self._analyser.query_terms(self._query))


def validated(hits: Sequence[Hit], validate: Validate | None) -> list[Hit]:
    """Return the hits that an application's check lets through; all of them without a check.

    Raises:
        ConfigurationError: When the check returns neither a hit nor None.
    """
    if validate is None:
        return list(hits)
    shown: list[Hit] = []
    for hit in hits:
        try:
            found = validate(hit)
        except Exception as error:  # noqa: BLE001  # whatever fails in a check, nothing is shown
            about = (hit.message_id, hit.session_id, error)
            logger.warning("validate= raised for message %r of session %r: %r", *about)
            continue
        if isinstance(found, Hit):
            shown.append(found)
        elif found is not None:
            raise ConfigurationError(
                f"validate= returned {found!r:.100}; return the hit, a changed one, or None."
            )
    return shown


def _moment(source: IndexSource) -> tuple[datetime, int]:
    """Return a key for the order of texts; those of one append have the same time."""
    return source.created_at, source.seq


def _has(source: IndexSource, metadata: Mapping[str, Any]) -> bool:
    own = {"role": source.role, "name": source.name, **source.metadata}
    if source.role == "document":
        own = {"document_id": source.document_id, **own}
    return all(key in own and own[key] == value for key, value in metadata.items())


def with_names(question: str, names: Iterable[str], is_unknown: Callable[[str], bool]) -> str:
    """Return a question with the misspelled names of speakers corrected.

    Only a capitalised word that no one has used is taken for a misspelled name.

    Example:
        >>> with_names("What did Mohamed buy?", ["Muhammed"], lambda word: word == "Mohamed")
        'What did Muhammed buy?'
    """
    known = {name.casefold(): name for name in names}

    def spelled(match: re.Match[str]) -> str:
        word = match[0]
        if not word[0].isupper():
            return word
        alike = get_close_matches(word.casefold(), known, 1, _ALIKE_NAMES)
        return known[alike[0]] if alike and is_unknown(word) else word

    return re.sub(rf"[^\W\d_]{{{_SHORT_NAME},}}", spelled, question)


def without_names(question: str, names: Iterable[str]) -> str:
    """Return a question without the names of speakers, for the search by meaning.

    A name moves the vector towards every message that mentions it, whatever the message is about.
    The search by words keeps names. A question of names only is returned unchanged.

    Example:
        >>> without_names("When did Anna's brother call Bob?", ["Anna", "Bob"])
        'When did brother call ?'
    """
    known = sorted({name for name in names if name.strip()}, key=len, reverse=True)
    if not known:
        return question
    pattern = rf"(?<!\w)(?:{'|'.join(map(re.escape, known))})(?:['\u2019]s)?(?!\w)"
    rest = " ".join(re.sub(pattern, " ", question, flags=re.IGNORECASE).split())
    return rest if re.search(r"\w", rest) else question

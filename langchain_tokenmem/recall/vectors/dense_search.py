"""Dense search: asks a vector index where it can help, and is never a reason to fail."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from langchain_tokenmem.core.search_units import Change
from langchain_tokenmem.errors import RecallError
from langchain_tokenmem.recall.base.interfaces import SearchIndexReader
from langchain_tokenmem.recall.lexical.bm25 import Scores
from langchain_tokenmem.recall.lexical.index import best_units

logger = logging.getLogger(__name__)

T = TypeVar("T")

_LOOKED_UP = 64
"""Best units by words that are asked for their vector, where the dense search did not find them."""


class DenseIndex(Protocol):
    """Search by meaning, as `Recall` asks for it: over vectors in the store, and in Chroma."""

    def has_any(
        self, reader: SearchIndexReader, among: Collection[str] | None, exclude: Collection[str]
    ) -> bool:
        """Return whether anything might be found by meaning.

        Raises:
            RecallError: When it cannot answer; recall goes on with words alone.
        """
        ...

    def question(self, query: str) -> Any:
        """Return a question as `search` wants it; called while no transaction is open.

        Raises:
            RecallError: When the model fails.
        """

    def search(self, question: Any, reader: SearchIndexReader) -> list[tuple[int, float]]:
        """Return the units nearest in meaning and their cosine, best first, in scope.

        How many does not depend on how many hits are wanted: their spread is what one is worth.

        Raises:
            RecallError: When it cannot answer; recall goes on with words alone.
        """
        ...

    def lacking(self, units: Sequence[int], reader: SearchIndexReader) -> Collection[int]:
        """Return the units among some whose vector is still missing."""
        ...

    def index(self) -> int:
        """Take in what the outbox holds; return how many units were embedded.

        Raises:
            RecallError: When it cannot; the outbox keeps what is missing.
        """
        ...

    def wake(self, change: Change) -> None:
        """Notice that the store has changed: never blocks, never raises."""

    def rebuild(self, *, progress: bool = False) -> int:
        """Make the index anew from the transcript; return how many units it has."""
        ...

    def forget(self, partitions: Sequence[int]) -> int:
        """Delete the entries of erased partitions; return how many there were."""
        ...

    def close(self) -> None:
        """Stop the worker and let go of files."""


@dataclass(frozen=True)
class DenseScores:
    """The answer of a vector index.

    Attributes:
        units: Units and their cosine, best first.
        lacking: Units that match by words and whose vector is still missing.
    """

    units: Sequence[tuple[int, float]] = ()
    lacking: Collection[int] = field(default_factory=frozenset)


class DenseSearch:
    """Asks a dense index; when that fails the words alone answer, with one warning.

    Args:
        dense: The index, where there is one.
    """

    def __init__(self, dense: DenseIndex | None) -> None:
        self._dense = dense
        self._has_warned = False

    def may_help(
        self, reader: SearchIndexReader, among: Collection[str] | None, exclude: Collection[str]
    ) -> bool:
        """Return whether there is a vector of anything that may be found."""
        dense = self._dense
        return dense is not None and self._try(
            lambda: dense.has_any(reader, among, exclude), otherwise=False
        )

    def question(self, query: str) -> Any:
        """Return the question as the index wants it, None when the model fails."""
        dense = self._dense
        return None if dense is None else self._try(lambda: dense.question(query), otherwise=None)

    def scores(self, question: Any, reader: SearchIndexReader, words: Scores) -> DenseScores:
        """Return the units near to a question, and those that have no vector yet."""
        dense = self._dense
        if dense is None or question is None:
            return DenseScores()

        def found() -> DenseScores:
            units = dense.search(question, reader)
            known = {unit for unit, _ in units}
            unknown = [unit for unit in best_units(words, _LOOKED_UP) if unit not in known]
            lacking = dense.lacking(unknown, reader) if units and unknown else frozenset[int]()
            self._has_warned = False
            return DenseScores(units, lacking)

        return self._try(found, otherwise=DenseScores())

    def _try(self, ask: Callable[[], T], *, otherwise: T) -> T:
        try:
            return ask()
        except RecallError as error:
            if not self._has_warned:
                logger.warning("Recall by meaning is off, words alone are searched: %s", error)
            self._has_warned = True
            return otherwise

"""Arithmetic of vectors: blending with the vectors of neighbours, and exact nearest search.

Messages often depend on the messages around them ("Yes, that one."), so vectors are blended with
those of their neighbours before they are compared. Beside the search by words this is worth 0.6
points of the evidence within 1,024 tokens on LoCoMo, and 0.8 within 4,096 (all-MiniLM-L6-v2, dev
half).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain

import numpy as np
import numpy.typing as npt

from langchain_tokenmem.core.search_units import PART_BITS
from langchain_tokenmem.recall.embeddings import Vectors, unit_rows

Numbers = npt.NDArray[np.int64]
"""Unit numbers (`core.search_units`), one per row of vectors."""

BLEND = 0.5
"""Share of the neighbours in a message's vector (lambda)."""

NEIGHBOURS = 2
"""Distance of neighbours at most, in messages of the same partition."""


def blended(
    units: Numbers, vectors: Vectors, *, share: float = BLEND, neighbours: int = NEIGHBOURS
) -> Vectors:
    """Return each unit's vector blended with those of the messages around it.

    `(1 - share) * own + share * mean of the neighbours`, all normalised to length 1. A message of
    several parts is one neighbour, with the mean of its parts; parts of the same message are not
    neighbours of each other. A unit without neighbours keeps its vector.

    Args:
        units: Numbers of the units, ascending.
        vectors: Their vectors, in the same order.
        share: Weight of the neighbours, 0 to 1.
        neighbours: Maximum distance of neighbours, in messages.

    Example:
        >>> units = np.array([1 << PART_BITS, 2 << PART_BITS], np.int64)
        >>> vectors = np.array([[1, 0], [0, 1]], np.float32)
        >>> blended(units, vectors).round(2).tolist()
        [[0.7099999785423279, 0.7099999785423279], [0.7099999785423279, 0.7099999785423279]]
    """
    if not len(units):
        return vectors
    places, first, place_of = np.unique(units >> PART_BITS, return_index=True, return_inverse=True)
    has_parts = len(places) < len(units)
    means = unit_rows(np.add.reduceat(vectors, first, axis=0)) if has_parts else vectors
    # One more row of zeros, for missing neighbours.
    padded = np.vstack([means, np.zeros((1, means.shape[1]), means.dtype)])
    context = np.zeros_like(means)
    for step in (step for step in range(-neighbours, neighbours + 1) if step):
        at = np.minimum(np.searchsorted(places, places + step), len(places) - 1)
        context += padded[np.where(places[at] == places + step, at, len(places))]
    lengths = np.linalg.norm(context, axis=1, keepdims=True)
    context *= np.divide(share, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    if has_parts:
        context = context[place_of]
    context += (1 - share) * vectors
    return unit_rows(context)


def nearest(
    units: Numbers, vectors: Vectors, question: Vectors, limit: int
) -> list[tuple[int, float]]:
    """Return the units nearest to a question with their cosines, the best first.

    The search is exact. Units with equal cosines are sorted by number, so that the same question
    always has the same answer.

    Args:
        units: Numbers of the units.
        vectors: Their vectors, each of length 1.
        question: One vector of length 1.
        limit: Maximum number of units.
    """
    # BLAS kernels may set the invalid flag for lanes beyond the end of a vector.
    with np.errstate(invalid="ignore"):
        scores = vectors @ question
    best = np.lexsort((units, -scores))[:limit]
    return [(int(units[at]), float(scores[at])) for at in best]


def nearest_in_pages(
    pages: Iterable[Mapping[int, bytes]], question: Vectors, limit: int
) -> list[tuple[int, float]]:
    """Return what `nearest` finds among the blended vectors of all pages.

    Args:
        pages: Stored vectors, in the order of their units.
        question: One vector of length 1.
        limit: Maximum number of units.
    """
    found: list[tuple[int, float]] = []
    read: dict[int, bytes] = {}
    scored = -1  # the last scored message
    for page in chain(pages, [{}]):
        read |= page
        units, vectors = to_matrix(read)
        if not len(units):
            continue
        places = units >> PART_BITS
        # Neighbours of the last messages of a page are missing, and parts of the last one may be.
        whole = int(places[-1]) - (NEIGHBOURS + 1 if page else 0)
        is_due = (places > scored) & (places <= whole)
        new = nearest(units[is_due], blended(units, vectors)[is_due], question, limit)
        found = sorted([*found, *new], key=lambda each: (-each[1], each[0]))[:limit]
        scored = max(scored, whole)
        read = {unit: read[unit] for unit in units[places > scored - NEIGHBOURS].tolist()}
    return found


def to_bytes(vector: Vectors) -> bytes:
    """Return a vector as it is stored: float32, little-endian."""
    return vector.astype("<f4").tobytes()


def to_matrix(vectors: Mapping[int, bytes]) -> tuple[Numbers, Vectors]:
    """Return stored vectors as arrays, in the order of their units."""
    units = sorted(vectors)
    flat = np.frombuffer(b"".join(vectors[unit] for unit in units), dtype="<f4")
    matrix = flat.reshape(len(units), -1) if units else flat.reshape(0, 0)
    return np.array(units, np.int64), matrix.astype(np.float32, copy=False)

"""Arithmetic of vectors: a message's blended with its neighbours', and exact nearest search.

A message says little without what stands around it ("Yes, that one."): its vector is mixed with
those of its neighbours before it is compared. On LoCoMo this raised the evidence that is found from
58.5 % (vectors alone) to 85.0 % (blended, and fused with the lexical index);
`benchmarks/recall_locomo.py` measures it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain

import numpy as np
import numpy.typing as npt

from langchain_tokenmem.core.search_units import PART_BITS
from langchain_tokenmem.recall.embeddings import Vectors, unit_rows

Numbers = npt.NDArray[np.int64]
"""Unit numbers (`core.search_units`), one for each row of vectors."""

BLEND = 0.5
"""Share of the neighbours in a message's vector (lambda)."""

NEIGHBOURS = 2
"""Distance of neighbours at most, in messages of the same partition."""


def blended(
    units: Numbers, vectors: Vectors, *, share: float = BLEND, neighbours: int = NEIGHBOURS
) -> Vectors:
    """Return each unit's vector mixed with those of the messages around it.

    `(1 - share) * own + share * mean of the neighbours`, each of length 1 before and the result of
    length 1 after. A message of several parts counts as one neighbour, with the mean of its parts;
    parts of the same message are no neighbours. A unit without neighbours stays as it is.

    Args:
        units: Numbers of the units, ascending.
        vectors: Their vectors, in the same order.
        share: Weight of the neighbours, 0 to 1.
        neighbours: How far neighbours stand at most, in messages.

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
    # One row more, of zeros, for neighbours that are not there.
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

    Exact, and equal cosines stand in the order of their numbers, so that the same question always
    has the same answer.

    Args:
        units: Numbers of the units.
        vectors: Their vectors, each of length 1.
        question: One vector of length 1.
        limit: Most units to return.
    """
    # BLAS kernels may set the flag of an invalid value for lanes beyond the end of a vector.
    with np.errstate(invalid="ignore"):
        scores = vectors @ question
    best = np.lexsort((units, -scores))[:limit]
    return [(int(units[at]), float(scores[at])) for at in best]


def nearest_in_pages(
    pages: Iterable[Mapping[int, bytes]], question: Vectors, limit: int
) -> list[tuple[int, float]]:
    """Return what `nearest` finds among the blended vectors of pages, the same as of one matrix.

    Args:
        pages: Stored vectors, in the order of their units.
        question: One vector of length 1.
        limit: Most units to return.
    """
    found: list[tuple[int, float]] = []
    read: dict[int, bytes] = {}
    scored = -1  # last message that has been scored
    for page in chain(pages, [{}]):
        read |= page
        units, vectors = to_matrix(read)
        if not len(units):
            continue
        places = units >> PART_BITS
        # Messages at the end of a page lack neighbours, and the last one may lack parts.
        whole = int(places[-1]) - (NEIGHBOURS + 1 if page else 0)
        is_due = (places > scored) & (places <= whole)
        new = nearest(units[is_due], blended(units, vectors)[is_due], question, limit)
        found = sorted([*found, *new], key=lambda each: (-each[1], each[0]))[:limit]
        scored = max(scored, whole)
        read = {unit: read[unit] for unit in units[places > scored - NEIGHBOURS].tolist()}
    return found


def to_bytes(vector: Vectors) -> bytes:
    """Return a vector as the store keeps it: float32, little-endian."""
    return vector.astype("<f4").tobytes()


def to_matrix(vectors: Mapping[int, bytes]) -> tuple[Numbers, Vectors]:
    """Return stored vectors as arrays, in the order of their units."""
    units = sorted(vectors)
    flat = np.frombuffer(b"".join(vectors[unit] for unit in units), dtype="<f4")
    matrix = flat.reshape(len(units), -1) if units else flat.reshape(0, 0)
    return np.array(units, np.int64), matrix.astype(np.float32, copy=False)

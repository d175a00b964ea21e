"""Blending vectors with their neighbours', and exact search."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from langchain_tokenmem.core.search_units import pack_unit
from langchain_tokenmem.recall.embeddings import unit_rows
from langchain_tokenmem.recall.vector_math import blended, nearest

places = st.sets(
    st.tuples(st.integers(1, 3), st.integers(1, 12), st.integers(0, 2)), min_size=1, max_size=25
)


def vectors_for(count: int, dim: int = 5, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed).standard_normal((count, dim))
    return unit_rows(random.astype(np.float32))


def blended_slowly(chosen, vectors, share, reach):
    """The definition, one unit after the other."""
    means = {}
    for partition, seq, _ in chosen:
        own = [
            v for (a, b, _), v in zip(chosen, vectors, strict=True) if (a, b) == (partition, seq)
        ]
        means[partition, seq] = unit_rows(np.sum(own, axis=0)[None])[0]
    made = []
    for (partition, seq, _), vector in zip(chosen, vectors, strict=True):
        around = [
            means[partition, seq + step]
            for step in range(-reach, reach + 1)
            if step and (partition, seq + step) in means
        ]
        context = unit_rows(np.sum(around, axis=0)[None])[0] if around else 0 * vector
        made.append((1 - share) * vector + share * context)
    return unit_rows(np.array(made, np.float32))


@given(places, st.floats(0, 0.9), st.integers(0, 3))
def test_the_fast_way_is_the_definition(chosen, share, reach):
    chosen = sorted(chosen)
    units = np.array([pack_unit(*place) for place in chosen], np.int64)
    vectors = vectors_for(len(chosen))
    expected = blended_slowly(chosen, vectors, share, reach)
    assert np.allclose(blended(units, vectors, share=share, neighbours=reach), expected, atol=1e-5)


@given(places)
def test_a_message_alone_in_its_partition_stays_as_it_is_and_partitions_never_mix(chosen):
    """The last number of a partition and the first of the next one are no neighbours."""
    alone = pack_unit(9, 1)
    units = [*(pack_unit(*place) for place in sorted(chosen)), alone]
    vectors = vectors_for(len(units))
    found = blended(np.array(units, np.int64), vectors)
    assert np.allclose(found[-1], vectors[-1], atol=1e-6)


def test_no_vectors_are_no_error():
    empty = np.zeros((0, 4), np.float32)
    assert blended(np.zeros(0, np.int64), empty).shape == (0, 4)
    assert nearest(np.zeros(0, np.int64), empty, np.ones(4, np.float32), 3) == []


@given(st.integers(1, 40), st.integers(1, 50), st.integers(0, 5))
def test_nearest_is_the_sorted_list_of_all_cosines(count, limit, seed):
    units = np.arange(count, dtype=np.int64)
    vectors, question = vectors_for(count, seed=seed), vectors_for(1, seed=99)[0]
    found = nearest(units, vectors, question, limit)
    cosines = vectors @ question
    assert found == [
        (int(unit), float(cosines[unit]))
        for unit in sorted(units, key=lambda unit: (-cosines[unit], unit))[:limit]
    ]


def test_ties_stand_in_the_order_of_their_numbers():
    vectors = np.ones((3, 2), np.float32) / np.sqrt(2)
    found = nearest(np.array([7, 3, 5]), vectors, vectors[0], 3)
    assert [unit for unit, _ in found] == [3, 5, 7]

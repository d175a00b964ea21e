"""Hashed vectors, and what tells two models apart."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_tokenmem.errors import ConfigurationError, RecallError
from langchain_tokenmem.recall.embeddings import (
    Fingerprint,
    HashingEmbeddings,
    embed_texts,
    fingerprint_of,
    name_of,
    unit_rows,
)
from tests.recall.dense_helpers import CountingEmbeddings


@given(st.text(), st.integers(2, 300))
def test_any_text_has_one_finite_vector_of_length_one(text, dim):
    vector = np.array(HashingEmbeddings(dim).embed_query(text))
    assert vector.shape == (dim,)
    assert np.isclose(np.linalg.norm(vector), 1.0)
    assert HashingEmbeddings(dim).embed_documents([text]) == [vector.tolist()]


def test_what_shares_words_is_nearer_and_what_only_means_the_same_is_not():
    embeddings = HashingEmbeddings(512)
    question, same, stranger = map(
        np.array,
        embeddings.embed_documents(["the red car", "a red car was sold", "an automobile went by"]),
    )
    assert question @ same > 0.25
    assert abs(question @ stranger) < 0.1


def test_the_vector_is_the_same_on_every_machine():
    assert [round(x, 4) for x in HashingEmbeddings(4).embed_query("tea")] == [
        -0.9507,
        0.0,
        -0.2194,
        0.2194,
    ]


@pytest.mark.parametrize("dim", ["8", 2.5, None, True])
def test_a_dimension_that_is_no_whole_number_is_refused(dim):
    with pytest.raises(ConfigurationError, match="whole number"):
        HashingEmbeddings(dim)


def test_a_dimension_below_two_is_refused():
    with pytest.raises(ConfigurationError, match="dim is 1"):
        HashingEmbeddings(1)


def test_another_model_behind_the_same_name_is_another_space():
    one = fingerprint_of(CountingEmbeddings(32, name="m"), "1")
    other = fingerprint_of(CountingEmbeddings(32, salt="x", name="m"), "1")
    assert one.model == other.model
    assert not one.is_same_model(other)
    assert one.key != other.key


def test_the_same_model_behind_another_name_is_the_same_space():
    one = fingerprint_of(CountingEmbeddings(32, name="gpt-embed"), "1")
    alias = fingerprint_of(CountingEmbeddings(32, name="openai/gpt-embed"), "1")
    assert one.is_same_model(alias)


@pytest.mark.parametrize(("dim", "rules"), [(64, "1"), (32, "2")])
def test_another_dimension_or_other_rules_are_another_space(dim, rules):
    one = fingerprint_of(CountingEmbeddings(32), "1")
    assert not one.is_same_model(fingerprint_of(CountingEmbeddings(dim), rules))


def test_a_service_that_rounds_is_still_the_same_model():
    one = fingerprint_of(HashingEmbeddings(256), "1")
    noise = np.random.default_rng(0).normal(0, 1e-3, len(one.probe))
    probe = tuple(float(x) for x in np.array(one.probe) + noise)
    assert one.is_same_model(Fingerprint("m", 256, "1", probe))


def test_a_fingerprint_survives_being_stored():
    one = fingerprint_of(HashingEmbeddings(16), "1", model="mine")
    assert Fingerprint.from_plain(json.loads(json.dumps(asdict(one)))) == one
    assert str(one) == "mine (16 dimensions, texts by rules 1)"


def test_a_model_without_a_name_is_called_by_its_class():
    class Nameless(HashingEmbeddings):
        def __init__(self) -> None:
            super().__init__(8)
            del self.model

    assert name_of(Nameless()) == "Nameless"


@pytest.mark.parametrize("wrong", [[[1.0, 2.0]], [[1.0] * 4], [[float("nan")] * 4] * 2, []])
def test_what_is_no_vector_for_each_text_is_refused(wrong):
    class Wrong(HashingEmbeddings):
        def embed_documents(self, texts):
            return wrong

    with pytest.raises(RecallError, match="Nothing was stored"):
        embed_texts(Wrong(4), ["a", "b"], 4)


def test_zeros_stay_zeros():
    assert unit_rows(np.array([[0, 0], [3, 4]], np.float32)).round(2).tolist()[0] == [0, 0]

"""Items of a store: values, filters and paths."""

from __future__ import annotations

import math

import pytest

from langchain_tokenmem.core.stored_items import (
    literal_prefix,
    matches_filter,
    matches_path,
    value_as_json,
)
from langchain_tokenmem.errors import ConfigurationError

VALUE = {"n": 3, "text": "b", "flag": True, "none": None, "deep": {"x": {"y": 1}}, "list": [1, {}]}


@pytest.mark.parametrize(
    "wanted",
    [
        None,
        {},
        {"n": 3},
        {"n": 3.0, "text": "b"},
        {"flag": True},
        {"none": None, "missing": None},
        {"deep": {"x": {"y": 1}}},
        {"deep.x.y": 1},
        {"deep": {}},
        {"list": [1, {}]},
        {"n": {"$gt": 2, "$lte": 3, "$lt": 10**100, "$ne": 4}},
        {"n": {"$gt": -math.inf}},
        {"text": {"$gte": "b", "$lt": "c"}},
        {"missing": {"$ne": 3}},
        {"flag": {"$eq": True}},
    ],
)
def test_a_filter_that_matches(wanted):
    assert matches_filter(VALUE, wanted)


@pytest.mark.parametrize(
    "wanted",
    [
        {"n": 4},
        {"n": "3"},
        {"flag": 1},
        {"n": {"$eq": math.nan}},
        {"n": {"$gt": 3}},
        {"n": {"$gt": "2"}},
        {"missing": {"$gt": 2}},
        {"missing": 3},
        {"deep": {"x": {"y": 2}}},
        {"n.x": 1},
        {"text": {"x": 1}},
        {"list": [1]},
        {"n": [3]},
    ],
)
def test_a_filter_that_does_not_match(wanted):
    assert not matches_filter(VALUE, wanted)


def test_an_operator_that_is_none_is_an_error():
    with pytest.raises(ValueError, match=r"\$like"):
        matches_filter(VALUE, {"n": {"$like": 3}})


def test_a_path_matches_at_either_end_with_any_label_for_a_star():
    namespace = ("a", "b", "c")
    assert matches_path(namespace, ("a", "*"), at_end=False)
    assert matches_path(namespace, ("*", "c"), at_end=True)
    assert not matches_path(namespace, ("b",), at_end=False)
    assert not matches_path(namespace, ("b",), at_end=True)
    assert not matches_path(("a",), ("a", "*"), at_end=False)
    assert literal_prefix(("a", "b", "*", "c")) == ("a", "b")


@pytest.mark.parametrize("value", [{"x": {1}}, {"x": math.nan}, {"x": object()}, {(1, 2): 3}])
def test_a_value_that_is_no_json_is_refused(value):
    with pytest.raises(ConfigurationError, match="value of an item"):
        value_as_json(value)

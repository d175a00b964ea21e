"""Items of a store: changes one after the other, filters and paths."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_tokenmem.core.stored_items import (
    DeleteChange,
    PutChange,
    RefreshChange,
    StoredItem,
    changed,
    literal_prefix,
    matches_filter,
    matches_path,
    newest_first,
    one_after_other,
    value_as_json,
)
from langchain_tokenmem.errors import ConfigurationError

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
ITEM_ID = (("a",), "k")


def at(minute: int) -> datetime:
    return NOON + timedelta(minutes=minute)


MINUTES = st.integers(0, 9)
CHANGES = st.one_of(
    st.builds(
        lambda minute, ttl: PutChange(f"{minute}", at(minute), ttl),
        MINUTES,
        st.one_of(st.none(), st.just(3.0)),
    ),
    st.builds(lambda minute: RefreshChange(at(minute)), MINUTES),
    st.just(DeleteChange()),
)


@given(st.lists(CHANGES, min_size=1, max_size=5), st.booleans())
def test_changes_put_together_do_what_they_do_one_by_one(changes, is_there):
    before = StoredItem(*ITEM_ID, "0", at(-9), at(-5), 4.0, at(-1)) if is_there else None
    together = None
    item = before
    for change in changes:
        item = changed(ITEM_ID, item, change)
        together = one_after_other(together, change)
    assert changed(ITEM_ID, before, together) == item


def test_a_put_keeps_the_time_when_its_key_was_first_put():
    first = changed(ITEM_ID, None, PutChange("1", at(0)))
    second = changed(ITEM_ID, first, PutChange("2", at(5), 2.0))
    assert (second.created_at, second.updated_at, second.expires_at) == (at(0), at(5), at(7))
    assert changed(ITEM_ID, second, RefreshChange(at(6))).expires_at == at(8)
    assert changed(ITEM_ID, None, RefreshChange(at(6))) is None


def test_the_last_put_item_is_the_first():
    items = [
        StoredItem(("a",), key, "0", NOON, at(minute))
        for key, minute in zip("abc", (1, 2, 1), strict=True)
    ]
    assert [item.key for item in newest_first(items)] == ["b", "a", "c"]


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


def test_a_value_is_stored_in_ascii():
    text = value_as_json({"ü": "\ud800\x00"})
    assert text.isascii()
    assert json.loads(text) == {"ü": "\ud800\x00"}

"""Ids, keys and the stored form of a note."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_tokenmem.core.thread_names import namespace_label
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.notes.note import (
    Note,
    Project,
    checked_content,
    checked_key,
    checked_tags,
    note_id,
    note_of,
    value_of,
)

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


def test_an_id_is_the_beginning_of_the_contents_sha_256():
    digest = hashlib.sha256(b"Use tabs.").hexdigest()
    assert note_id("Use tabs.") == f"mem_{digest[:8]}"


def test_an_id_that_is_taken_gets_longer():
    digest = hashlib.sha256(b"Use tabs.").hexdigest()
    taken = {f"mem_{digest[:8]}", f"mem_{digest[:9]}"}
    assert note_id("Use tabs.", taken) == f"mem_{digest[:10]}"


def test_a_note_comes_back_from_its_stored_form_as_it_was():
    project = Project.named("/work/shop")
    note = Note("mem_12345678", "x", "project", NOON, NOON, "k", "fact", ("a",), project, 7)
    assert note_of(value_of(note, "ann"), "ann", "project") == note


def test_a_stored_form_of_another_user_or_level_is_no_note():
    value = value_of(Note("mem_12345678", "x", "global", NOON, NOON), "ann")
    assert note_of(value, "bob", "global") is None
    assert note_of(value, "ann", "project") is None


@pytest.mark.parametrize(
    "damage",
    [{"content": 3}, {"created_at": "soon"}, {"kind": "rumour"}, {"tags": None}, {"project": "x"}],
)
def test_what_an_application_put_there_is_no_note(damage):
    value = value_of(Note("mem_12345678", "x", "global", NOON, NOON), "ann")
    assert note_of({**value, **damage}, "ann", "global") is None


def test_a_project_is_the_same_with_a_slash_at_its_end():
    assert Project.named("/work/shop/").id == Project.named("/work/shop").id
    assert Project.named("/work/shop/").label == "/work/shop/"


@pytest.mark.parametrize("name", ["", "  ", None, 3])
def test_a_project_has_a_name(name):
    with pytest.raises(ConfigurationError, match="project"):
        Project.named(name)


@pytest.mark.parametrize("content", ["", " \n", None, "x" * 10_001])
def test_a_content_is_a_text_of_bounded_length(content):
    with pytest.raises(ConfigurationError, match="content"):
        checked_content(content)


@pytest.mark.parametrize("key", ["", 3, "k" * 201, "a\nb", "mem_12345678"])
def test_a_key_is_a_name_on_one_line_and_unlike_an_id(key):
    with pytest.raises(ConfigurationError, match="key"):
        checked_key(key)


def test_what_databases_refuse_is_left_out_of_texts():
    assert checked_content("a\0b\ud800") == "ab?"


def test_tags_are_texts_each_once():
    assert checked_tags(["a", " a ", "b\nc", ""]) == ("a", "b c")
    with pytest.raises(ConfigurationError, match="tags"):
        checked_tags([3])


@given(st.text(min_size=1), st.text(min_size=1))
def test_two_names_never_share_a_label_and_every_store_takes_it(one, other):
    label = namespace_label(one)
    assert label
    assert "." not in label
    assert (label == namespace_label(other)) == (one == other)

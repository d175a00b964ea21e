"""Namespaces of notes: labels that every store takes, and the owner and session read from them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.base import GetOp, validate_op_namespace

from langchain_tokenmem.core.thread_names import (
    NO_USER,
    namespace_label,
    notes_of_session,
    notes_of_user,
    owner_label,
    session_label,
)

NAMES = st.one_of(
    st.text(), st.sampled_from(["", "*", "-", "=ann", "a.b", "\ud800", "a\x00", "#1"])
)


@given(NAMES)
def test_a_label_never_holds_what_a_store_refuses(name):
    validate_op_namespace(GetOp((namespace_label(name),), "key"))
    assert namespace_label(name) not in {"*", NO_USER}


@given(NAMES, NAMES)
def test_two_names_never_have_one_label(one, other):
    assert (namespace_label(one) == namespace_label(other)) == (one == other)


def test_a_plain_name_is_readable_and_another_one_is_hashed():
    assert namespace_label("user-7/chat_1") == "=user-7/chat_1"
    assert namespace_label("ann@example.com") == "#71d4f55f72fa128dfb468a1a3901507c"


@pytest.mark.parametrize("user", ["ann", "ann@example.com", None])
def test_owner_and_session_are_read_from_the_namespace(user):
    own = NO_USER if user is None else namespace_label(user)
    session = notes_of_session(user, "s.1")
    assert session[:3] == notes_of_user(user)
    assert (owner_label(session), session_label(session)) == (own, namespace_label("s.1"))
    project = (*notes_of_user(user), "project", "=p")
    assert (owner_label(project), session_label(project)) == (own, None)


@pytest.mark.parametrize("namespace", [(), ("tokenmem", "notes"), ("users", "notes", "=ann")])
def test_a_namespace_of_others_has_no_owner(namespace):
    assert owner_label(namespace) is None
    assert session_label((*namespace[:1], "x", "=ann", "session", "=s")) is None

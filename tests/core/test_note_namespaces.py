"""Namespaces of notes: labels that every store takes, and the owner and session read from them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.base import GetOp, validate_op_namespace

from langchain_tokenmem.core.thread_names import NO_USER, namespace_label
from tests.strategies import any_text

NAMES = st.one_of(
    any_text(), st.sampled_from(["", "*", "-", "=ann", "a.b", "\ud800", "a\x00", "#1"])
)


@given(NAMES)
def test_a_label_never_holds_what_a_store_refuses(name):
    validate_op_namespace(GetOp((namespace_label(name),), "key"))
    assert namespace_label(name) not in {"*", NO_USER}


@given(NAMES, NAMES)
def test_two_names_never_have_one_label(one, other):
    assert (namespace_label(one) == namespace_label(other)) == (one == other)

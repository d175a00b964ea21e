"""The check of a stored memory state."""

import copy
import operator
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from langchain_tokenmem import TokenMemory
from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.state import STATE_VERSION, MemoryState, load_state, new_state
from tests.fakes import talk
from tests.storage.samples import entry, state
from tests.strategies import any_text

JSON = st.recursive(
    st.sampled_from([None, True, False, -9, 9, 0, 0.5]) | any_text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(any_text(max_size=3), inner),
    max_leaves=4,
)
MESSAGES = [
    HumanMessage("one", id="m0"),
    AIMessage("two " * 40, id="m1"),
    HumanMessage("3", id="m2"),
]
MEMORY = TokenMemory(2_000)


def filled() -> MemoryState:
    """Return a state in which everything that can be kept is kept."""
    return {
        **state("m0", "m0"),
        "summary": {"entries": [entry("m0", condensed=["e0"])], "covers_to": "m0", "covered": 1},
        "cuts": {"m1": {"head": 8, "tail": 8, "args": 3, "calls": 0}},
        "blocks": {"m2": {"text": "recalled", "ids": ["m0"], "question": "d"}},
        "stored_to": "m2",
        "pruned": [[1, 2]],
    }


def places(value, path=()):
    yield path
    items = enumerate(value) if isinstance(value, list) else getattr(value, "items", tuple)()
    for key, inner in items:
        yield from places(inner, (*path, key))


@given(st.data())
def test_malformed_states_raise_corrupt_store_error_and_never_another_one(data):
    whole = {"state": filled()}
    *path, last = data.draw(st.sampled_from(sorted(places(whole), key=str)[1:]))
    holder = reduce(operator.getitem, path, whole)
    if last != "state" and data.draw(st.booleans()):
        del holder[last]
    else:
        holder[last] = data.draw(JSON)
    given_state = copy.deepcopy(whole["state"])
    try:
        MEMORY.explain(MESSAGES, whole["state"])
        MEMORY.compact(MESSAGES, whole["state"], force=True)
    except CorruptStoreError:
        pass
    assert whole["state"] == given_state


def test_the_error_for_a_malformed_state_names_the_place_and_shows_no_words():
    with pytest.raises(CorruptStoreError, match=r"damaged at cuts\.m1\.head") as caught:
        load_state({**filled(), "cuts": {"m1": {"head": "secret", "tail": 1}}})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("version", [STATE_VERSION - 1, STATE_VERSION + 1])
def test_a_state_of_another_version_is_refused_with_what_to_do(version):
    with pytest.raises(CorruptStoreError, match=rf"version {version}, .* reads {STATE_VERSION}"):
        load_state({**filled(), "version": version})


def test_what_an_application_changes_in_a_state_reaches_no_other_conversation():
    memory = TokenMemory(2_000)
    said = talk(20, words=30)
    first = memory.compact(said, force=True)
    first["turns"]["done"]["x"] = {"files_changed": ["a.py"], "failed_commands": []}
    first["turns"]["running"]["files_changed"].append("a.py")
    assert "a.py" not in str(memory.compact(said, force=True))


def test_an_empty_dict_is_a_new_state_and_other_values_say_that_the_key_may_be_taken():
    assert load_state({}) == load_state(None) == new_state()
    with pytest.raises(CorruptStoreError, match="give the memory another one"):
        load_state({"favourite": "tea"})

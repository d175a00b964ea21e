"""The check of a stored memory state."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from langchain_tokenmem import TokenMemory
from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.state import STATE_VERSION, MemoryState, load_state, new_state
from tests.strategies import any_text

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(allow_nan=False)
    | any_text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(any_text(max_size=3), inner),
    max_leaves=4,
)
MESSAGES = [
    HumanMessage("one", id="m0"),
    AIMessage("two " * 40, id="m1"),
    HumanMessage("three", id="m2"),
]
MEMORY = TokenMemory(2_000)


def filled() -> MemoryState:
    """Return a state in which everything that can be kept is kept."""
    time = "2026-01-01T00:00:00+00:00"
    entry = {
        "id": "e1",
        "text": "They said one.",
        "first": "743116",
        "last": 1,
        "covered": 1,
        "since": time,
        "until": None,
        "last_ids": ["m0"],
        "tokens": 5,
        "model": "m",
        "prompt_version": "1",
        "reason": "limit",
        "created_at": time,
        "failures": [],
        "condensed": ["e0"],
    }
    return {
        **new_state(),
        "summary": {"entries": [entry], "covers_to": "m0", "covered": 1},
        "kept": ["m0"],
        "cuts": {"m1": {"head": 8, "tail": 8, "args": 3, "calls": 0}},
        "blocks": {"m2": {"text": "recalled", "ids": ["m0"], "question": "d"}},
        "stored_to": "m2",
        "pruned": [[1, 2]],
    }


def places(value, path=()):
    yield path
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in items:
        yield from places(inner, (*path, key))


@given(st.data())
def test_malformed_states_raise_corrupt_store_error_and_never_another_one(data):
    state = filled()
    path = data.draw(st.sampled_from(sorted(places(state), key=str)))
    if not path:
        state = data.draw(JSON)
    else:
        holder = state
        for key in path[:-1]:
            holder = holder[key]
        if data.draw(st.booleans()):
            holder[path[-1]] = data.draw(JSON)
        else:
            del holder[path[-1]]
    given_state = copy.deepcopy(state)
    try:
        MEMORY.explain(MESSAGES, state)
        MEMORY.compact(MESSAGES, state, force=True)
    except CorruptStoreError:
        pass
    assert state == given_state


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
    talk = [
        kind(f"{number} " * 60, id=f"{kind.__name__}{number}")
        for number in range(20)
        for kind in (HumanMessage, AIMessage)
    ]
    first = memory.compact(talk, force=True)
    first["turns"]["done"]["x"] = {"files_changed": ["a.py"], "failed_commands": []}
    first["turns"]["running"]["files_changed"].append("a.py")
    assert "a.py" not in str(memory.compact(talk, force=True))


def test_an_empty_dict_is_a_new_state_and_other_values_say_that_the_key_may_be_taken():
    assert load_state({}) == load_state(None) == new_state()
    with pytest.raises(CorruptStoreError, match="give the memory another one"):
        load_state({"favourite": "tea"})

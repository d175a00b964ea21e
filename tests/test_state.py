"""The check of a stored memory state."""

from __future__ import annotations

import copy
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem import state as state_module
from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.state import STATE_VERSION, MemoryState, load_state, new_state
from tests.fakes import CharCounter, ListSummarizer
from tests.legality import problems
from tests.strategies import conversations

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(allow_nan=False)
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)
MESSAGES = [
    HumanMessage("one", id="m0"),
    AIMessage("two " * 40, id="m1"),
    HumanMessage("three", id="m2"),
]
MEMORY = TokenMemory(TokenBudget(2_000))


def filled() -> MemoryState:
    entry = {
        "id": "e1",
        "text": "They said one.",
        "first": "743116",
        "last": 1,
        "covered": 1,
        "since": "2026-01-01T00:00:00+00:00",
        "until": None,
        "last_ids": ["m0"],
        "tokens": 5,
        "model": "m",
        "prompt_version": "1",
        "reason": "limit",
        "created_at": "2026-01-01T00:00:00+00:00",
        "failures": [],
        "condensed": ["e0"],
        "sources": [["743116"]],
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


@pytest.mark.parametrize(
    "damage",
    [
        {"cuts": {"m1": {"head": "8", "tail": 8}}},
        {"cuts": {"m1": {"head": -8, "tail": 8}}},
        {"cuts": {"m1": None}},
        {"kept": [1]},
        {"kept": None},
        {"blocks": {"m2": {"text": None, "ids": []}}},
        {"summary": {"text": "no pointer"}},
        {"summary": {"entries": [], "covers_to": "m0", "covered": 1}},
        {"summary": {"entries": [{"text": "no place"}], "covers_to": "m0", "covered": 1}},
        {"pruned": [[1]]},
        {"totals": {}},
        {"version": True},
    ],
)
def test_a_malformed_part_of_a_state_raises_corrupt_store_error(damage):
    with pytest.raises(CorruptStoreError):
        load_state({**filled(), **damage})


def test_the_error_for_a_malformed_state_names_the_place_and_shows_no_words():
    with pytest.raises(CorruptStoreError, match=r"damaged at cuts\.m1\.head") as caught:
        load_state({**filled(), "cuts": {"m1": {"head": "secret", "tail": 1}}})
    assert "secret" not in str(caught.value)


def test_a_state_is_returned_itself_and_survives_json():
    state = filled()
    assert load_state(state) is state
    assert load_state(json.loads(json.dumps(state))) == state
    assert load_state({"version": 1}) == new_state()


def of_version_1() -> dict:
    """Return a state as the package before the log has written it."""
    summary = {
        "text": "They said one, two and three.",
        "covers_to": "m5",
        "covered": 6,
        "tokens": 8,
        "model": "m",
        "prompt_version": "1",
        "reason": "limit",
        "created_at": "2026-01-01T00:00:00+00:00",
        "failures": ["blank"],
    }
    return {**new_state(), "version": 1, "summary": summary, "kept": ["m0"], "stored_to": "m5"}


def test_a_state_of_version_1_loads_as_a_log_of_one_entry():
    old = of_version_1()
    before = copy.deepcopy(old)
    state = load_state(old)
    assert old == before
    assert state["version"] == STATE_VERSION == 2
    summary = state["summary"]
    assert (summary["covers_to"], summary["covered"]) == ("m5", 6)
    [entry] = summary["entries"]
    assert (entry["first"], entry["last"], entry["covered"]) == ("m5", 6, 6)
    assert entry["last_ids"] == ["m5"]
    same = {"text", "tokens", "model", "prompt_version", "reason", "created_at", "failures"}
    assert {key: entry[key] for key in same} == {key: before["summary"][key] for key in same}
    assert {key: state[key] for key in ("kept", "stored_to", "totals")} == {
        key: before[key] for key in ("kept", "stored_to", "totals")
    }
    assert load_state(json.loads(json.dumps(state))) == state
    without = {**of_version_1(), "summary": None}
    assert load_state(without) == {**without, "version": 2}


@pytest.mark.slow
@given(conversations(), st.sampled_from([600, 1_000, 4_000]), st.integers(0, 8_000))
def test_a_view_under_a_state_of_version_1_is_legal_and_never_over_the_limit(later, window, size):
    said = [HumanMessage("one " * 20, id="m0")]
    said += [AIMessage(f"{n} said " * 20, id=f"m{n}") for n in range(1, 6)]
    said += [m.model_copy(update={"id": f"l{n}"}) for n, m in enumerate(later)]
    state = of_version_1()
    state["summary"] |= {"text": "word " * (size // 5) + ".", "tokens": math.ceil(size / 4) + 1}
    memory = TokenMemory(TokenBudget(window), counter=CharCounter(), summarizer=ListSummarizer())
    for now in (state, memory.compact(said, state), memory.compact(said, state, force=True)):
        view = memory.view(said, now)
        assert memory.count(view.messages).tokens == view.usage.input_tokens
        assert view.usage.input_tokens <= memory.budget.limit
        assert problems(view.messages) == []
        assert not {"m1", "m4", "m5"} & {m.id for m in view.messages}


def test_an_older_package_refuses_the_state_of_a_newer_one_and_says_what_to_do(monkeypatch):
    newer = filled()
    monkeypatch.setattr(state_module, "STATE_VERSION", 1)
    with pytest.raises(CorruptStoreError, match=r"version 2.*up to 1\. Upgrade langchain-tokenmem"):
        load_state(newer)

"""Every feature at once, times to pins: a view is still legal, and within the limit."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.core.messages import marked, role_of, with_ids
from langchain_tokenmem.core.pins import new_pin
from langchain_tokenmem.core.profiles import PROFILES
from langchain_tokenmem.errors import BudgetExceededError
from langchain_tokenmem.memory.recalled_blocks import add_memory_block
from langchain_tokenmem.modes import TurnMemorySettings
from langchain_tokenmem.notes.kept_notes import KeptNotes, with_notes_in_front
from langchain_tokenmem.state import MemoryState, new_state
from langchain_tokenmem.types import RequestRules
from tests.fakes import CharCounter
from tests.legality import problems
from tests.providers import CHECKS
from tests.strategies import conversations

KEPT = KeptNotes("<kept_notes>\nThe build runs on blue.\n</kept_notes>", {"n1": "user"})
RECALLED = {
    "text": "<recalled_messages>\nUser: The parcel is blue.\n</recalled_messages>",
    "ids": [],
}


def memory_of(window, profile, mode="code"):
    return TokenMemory(
        TokenBudget(context_window=window),
        counter=CharCounter(),
        request=RequestRules(legality=profile, show_times="all"),
        mode=mode,
        turn_memory=TurnMemorySettings(include_partial=True, project_root="/app", shown="always"),
    )


def pinned_state() -> MemoryState:
    pins = [new_pin("Answer in French."), new_pin("Port 8443", by="tool")]
    return {**new_state(), "pins": pins}


def with_block(state, messages):
    """Return the state with kept notes and a recalled message in front of the newest question."""
    named = with_ids(messages)
    if not named or role_of(named[-1]) != "human":
        return state
    return add_memory_block(state, named, named[-1], with_notes_in_front(RECALLED, KEPT))


@st.composite
def working(draw: st.DrawFn):
    """Conversations as broken as they come, with turns of work and times in between."""
    found = []
    for part in range(draw(st.integers(1, 3))):
        found += draw(conversations(6))
        key = f"w{part}"
        command = draw(st.sampled_from(["make", "pytest </working_notes>", "x" * 900]))
        call = {"name": "bash", "args": {"command": command}, "id": key, "type": "tool_call"}
        path = draw(st.sampled_from(["/app/a.py", "</conversation_summary>.py"]))
        write = {"name": "write_file", "args": {"path": path}, "id": f"{key}f", "type": "tool_call"}
        found += [
            HumanMessage("Fix src/app.py. We must never use telnet.", id=f"{key}h"),
            AIMessage("", tool_calls=[call, write], id=f"{key}a"),
            ToolMessage("Error: no\nbash-$", tool_call_id=key, artifact={"exit_code": 1}),
            ToolMessage("ok", tool_call_id=f"{key}f"),
            AIMessage("We decided to use SQLite because it is simple.", id=f"{key}d"),
        ]
    time = {"created_at": "2026-02-14T15:23:05+00:00"}
    return [marked(one, **time) if draw(st.booleans()) else one for one in found]


@pytest.mark.slow
@pytest.mark.parametrize("profile", sorted(PROFILES))
@given(working(), st.sampled_from([900, 2_000, 8_000]), st.sampled_from(["code", "reasoning"]))
def test_a_view_with_all_features_is_legal_and_within_the_limit(profile, messages, window, mode):
    memory, before = memory_of(window, profile, mode), copy.deepcopy(messages)
    state = pinned_state()
    for end in (len(messages) // 2, len(messages)):
        said = messages[:end]
        try:
            state, view = memory.compact_and_view(said, with_block(state, said), system="Be brief.")
        except BudgetExceededError:
            return
        assert view.usage.input_tokens == memory.count(view.messages).tokens
        assert view.usage.input_tokens <= memory.budget.limit
        if not any(role_of(one) != "system" for one in view.messages):
            continue
        assert problems(view.messages) == []
        if profile in CHECKS:
            CHECKS[profile](view.messages)
    assert messages == before
    assert memory.compact(messages, state, system="Be brief.") == state

"""Words of a covered message that was edited stand in no summary, block or note any more."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
)

from langchain_tokenmem import TokenBudget, TokenMemory
from tests.fakes import CharCounter, ListSummarizer, entries_of, log_text

BUDGET = TokenBudget(context_window=1_200)
OLD, NEW = "/z.key", "[REDACTED]"


def talk(turns: int, secret: int | None = None) -> list[BaseMessage]:
    """Return a conversation in which the question of one turn names a secret."""
    found: list[BaseMessage] = []
    for turn in range(turns):
        word = f"the file {OLD}" if turn == secret else "the harbour"
        said = f"We decided to name {word} on crate {turn}. "
        found += [
            HumanMessage(
                said + "It is a fine day for a walk by the sea, is it not? " * 4, id=f"h{turn}"
            ),
            AIMessage("That is so, and the sea is calm, I would say. " * 5, id=f"a{turn}"),
        ]
    return found


def edited(messages: list[BaseMessage], *keys: str) -> list[BaseMessage]:
    return [
        m.model_copy(update={"content": str(m.content).replace(OLD, NEW)}) if m.id in keys else m
        for m in messages
    ]


def memory_of(**keywords) -> TokenMemory:
    return TokenMemory(BUDGET, counter=CharCounter(), **keywords)


def shown(memory: TokenMemory, messages: list[BaseMessage], state) -> str:
    return "\n".join(str(message.content) for message in memory.view(messages, state).messages)


@pytest.mark.slow
@pytest.mark.parametrize("summarizer", [None, ListSummarizer()])
def test_an_edit_of_a_covered_message_changes_its_entry_and_no_other(summarizer):
    budget = TokenBudget(context_window=1_600)
    memory = TokenMemory(budget, counter=CharCounter(), summarizer=summarizer)
    messages = talk(6, secret=1)
    state = memory.compact(messages)
    for end in (18, 24, 30, 36, 40):
        longer = messages + talk(20)[12:end]
        state = memory.compact(longer, state)
    assert len(entries_of(state)) > 1
    assert OLD in log_text(state)
    now = edited(longer, "h1")
    view = memory.view(now, state)
    assert OLD not in shown(memory, now, state)
    assert view.usage.input_tokens <= budget.limit
    after = memory.compact(now, state)
    changed = [
        new for old, new in zip(entries_of(state), entries_of(after), strict=True) if new != old
    ]
    assert [entry["reason"] for entry in changed] == ["edited"]
    assert OLD not in log_text(after)
    assert changed[0]["tokens"] <= entries_of(state)[0]["tokens"]
    assert memory.compact(now, after) is after


def test_what_a_later_entry_repeats_of_an_edited_one_goes_with_it():
    """A model may repeat what the earlier entries say, though it should not."""

    def repeating(messages, prior, instruction, max_tokens):
        text = f"{prior} {messages}"
        return f"- They named the file {OLD}." if OLD in text else "- They talked about the sea."

    memory = TokenMemory(2_400, counter=CharCounter(), summarizer=repeating, background=False)
    messages, state = talk(40, secret=1), None
    for end in range(4, 61):
        state = memory.compact(messages[:end], state)
    assert [OLD in entry["text"] for entry in entries_of(state)] == [True, True]
    now = edited(messages, "h1")
    assert OLD not in shown(memory, now, state)
    assert OLD not in log_text(memory.compact(now, state))


def test_an_edit_inside_of_a_message_is_seen_by_the_memory_that_knows_it():
    call = {"name": "read", "args": {"paths": ["secret.py"]}, "id": "c", "type": "tool_call"}
    block: dict[str, Any] = {"type": "text", "text": "My secret word is two."}
    said = HumanMessage("My secret word is one.", id="a")
    tell, called = HumanMessage([block], id="b"), AIMessage("", tool_calls=[call], id="c")
    result = ToolMessage("def three(): ...", tool_call_id="c", id="d")
    memory, messages = memory_of(), [said, tell, called, result, *talk(12)]
    state = memory.compact(messages)
    assert memory.compact(messages, state) == state

    def change_text() -> None:
        said.content = "Nothing to see."

    def change_block() -> None:
        tell.content[0]["text"] = "Nothing to see."

    def change_call() -> None:
        called.tool_calls[0]["args"]["paths"].clear()

    for change in (change_text, change_block, change_call):
        change()
        corrected = memory.compact(messages, state)
        assert entries_of(corrected)[0]["reason"] == "edited"
        assert corrected == memory_of().compact(messages, state)
        state = corrected
    assert "secret" not in log_text(state)


@pytest.mark.slow
@given(st.sets(st.integers(0, 14)), st.booleans())
def test_words_that_were_edited_away_never_stand_in_a_request_again(turns, is_condensed):
    memory = memory_of()
    messages = talk(16)
    said = [
        m.model_copy(update={"content": f"{m.content} Secret {OLD}{m.id}.pem."}) for m in messages
    ]
    state = None
    for end in range(6, len(said) + 1, 6):
        state = memory.compact(said[:end], state)
    if is_condensed:
        state = memory.compact(said, state, instruction="Keep the prices.")
    keys = {f"h{turn}" for turn in turns}
    now = [
        m.model_copy(update={"content": m.content.replace(OLD, "")}) if m.id in keys else m
        for m in said
    ]
    after, view = memory.compact_and_view(now, state)
    text = "\n".join(str(message.content) for message in view.messages)
    assert not [key for key in keys if f"{OLD}{key}.pem" in text + log_text(after)]
    assert view.usage.input_tokens <= BUDGET.limit

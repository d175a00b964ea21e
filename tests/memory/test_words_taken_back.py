"""Words that are taken back from messages that are not summarized: no note or block has them."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langchain_tokenmem import (
    Recall,
    TokenBudget,
    TokenMemory,
    TokenMemoryChatHistory,
    TranscriptStore,
    with_token_memory,
)
from langchain_tokenmem.types import Shares
from tests.fakes import CharCounter, replacing
from tests.memory.test_hidden_words import Door, kept, secret, talk
from tests.summarize.models import Scripted

OLD = "quokka"
MODES = ["code", "conversation", "reasoning"]


def memory_of(mode: str | None, **keywords: Any) -> TokenMemory:
    budget = TokenBudget(context_window=20_000)
    return TokenMemory(budget, counter=CharCounter(), mode=mode, **keywords)


def said(word: str = OLD) -> list[BaseMessage]:
    """Return a conversation whose messages say a word where notes are read from."""
    call = {"name": "run", "args": {"command": f"cat /srv/{word}.py"}, "id": "c"}
    return [
        HumanMessage("Please fix the parser of the invoices.", id="h0"),
        AIMessage("I look at the parser of the invoices.", id="a0"),
        HumanMessage(
            f"You must never write to /srv/{word}.py. My name is {word.title()} Smith. "
            f"Please migrate the {word} database. We decided to use {word} instead of Redis "
            f"because {word} is faster. {word.title()} Smith lives in {word.title()}.",
            id="h1",
        ),
        AIMessage("", tool_calls=[call], id="a1"),
        ToolMessage(f"FileNotFoundError: {word}", tool_call_id="c", id="t1", status="error"),
        AIMessage(f"We decided to use {word} for {word.title()} Smith.", id="a2"),
        HumanMessage("We must always test the parser. Please go on.", id="h2"),
    ]


KEYS = ["h1", "a1", "t1", "a2"]


@pytest.mark.parametrize("mode", MODES)
def test_notes_of_a_stored_session_follow_an_edit_of_what_is_not_summarized(mode):
    with TranscriptStore("sqlite://") as store:
        history = TokenMemoryChatHistory("s", memory=memory_of(mode), store=store)
        history.add_messages(said())
        assert OLD in text_of(history.messages)
        assert OLD in kept(store.state("s").state).casefold()
        history.add_messages([m for m in said("harbour") if m.id in KEYS])
        assert OLD not in text_of(history.messages)
        assert OLD not in kept(store.state("s").state).casefold()
        assert "harbour" in kept(store.state("s").state)
        state = store.state("s").state
        assert history.messages
        assert store.state("s").state == state


def text_of(messages: list[BaseMessage]) -> str:
    return "\n".join(str(message.content) for message in messages).casefold()


@pytest.mark.parametrize("mode", MODES)
def test_an_edit_by_hand_is_seen_by_a_view_and_keeps_the_numbers_of_decisions(mode):
    memory = memory_of(mode)
    state = memory.compact(said())
    assert OLD in kept(state).casefold()
    now = said("harbour")
    assert OLD not in text_of(memory.view(now, state).messages)
    after = memory.compact(now, state)
    assert OLD not in kept(after).casefold()
    assert after["modes"]["turn"] == state["modes"]["turn"]
    numbers = [
        [item.get("number") for item in one["modes"]["sections"].get("decisions", ())]
        for one in (state, after)
    ]
    assert numbers[0] == numbers[1]
    assert memory.compact(now, after) is after


@pytest.mark.slow
def test_a_recalled_block_goes_with_the_words_that_it_shows_before_any_summary():
    with TranscriptStore("sqlite://") as store, Recall(store, k=1) as recall:
        memory = TokenMemory(
            TokenBudget(context_window=1_600, shares=Shares(recall=0.4)),
            counter=CharCounter(),
            recall=recall,
            trigger=None,
        )
        door = Door("node", store, memory)
        door.say(HumanMessage("Good morning to you.", id="first"))
        door.say(HumanMessage(f"The colour of the gate is {OLD}.", id="fact"))
        for turn in range(12):
            door.say(HumanMessage("Waves, wind and sand. " * 30, id=f"h{turn}"))
        request = door.say(HumanMessage("Which colour has the gate?", id="ask"))
        assert OLD in request
        assert "fact" in door.state()["blocks"]["ask"]["ids"]
        door.change(HumanMessage("The colour of the gate is harbour.", id="fact"))
        request = door.say(HumanMessage("Go on.", id="next"))
        assert OLD not in request + kept(door.state())


def small_memory(**keywords: Any) -> TokenMemory:
    return TokenMemory(TokenBudget(context_window=1_200), counter=CharCounter(), **keywords)


@pytest.mark.slow
@pytest.mark.parametrize("key", ["h1", "h11"])
def test_a_summary_that_was_begun_before_an_edit_brings_no_words_back(key):
    begun, may_end = threading.Event(), threading.Event()

    def slow(messages: list[BaseMessage], prior: str | None = None) -> str:
        begun.set()
        may_end.wait(20)
        return "\n".join(f"- {str(m.content)[:30]}" for m in messages)[:400]

    with TranscriptStore("sqlite://") as store:
        memory = small_memory(summarizer=slow, mode="reasoning", max_wait_s=0.1)
        history = TokenMemoryChatHistory("s", memory=memory, store=store)
        history.add_messages(talk(12))
        assert history.messages
        assert begun.wait(10)
        assert secret(key) in kept(store.state("s").state)
        history.add_messages([HumanMessage("Nothing to see.", id=key)])
        may_end.set()
        assert memory.background_summaries.wait(10)
        for _ in range(2):
            again = TokenMemoryChatHistory("s", memory=memory, store=store)
            assert secret(key) not in text_of(again.messages)
            assert memory.background_summaries.wait(10)
        assert secret(key) not in kept(store.state("s").state)


@pytest.mark.parametrize("mode", MODES)
def test_notes_of_words_that_before_store_takes_out_are_not_stored(mode):
    with TranscriptStore("sqlite://") as store:
        memory = memory_of(mode, before_store=replacing("[R]", OLD, OLD.title()))
        model = Scripted(answer=lambda _messages: "Noted.")
        chain = with_token_memory(model, memory, store)
        config: Any = {"configurable": {"session_id": "s"}}
        for message in (said()[2], HumanMessage("Please go on.", id="next")):
            chain.invoke([message], config)
            assert OLD not in kept(store.state("s").state or {}).casefold()
        assert "[R]" in str(store.state("s").state)

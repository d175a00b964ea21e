"""Words of a removed message stand in no summary, block or note, where removals hide."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage
from langgraph.graph import START, StateGraph

from langchain_tokenmem import (
    CompactNode,
    MemoryMessagesState,
    MemoryNode,
    TokenBudget,
    TokenMemory,
    TokenMemoryChatHistory,
    TokenMemorySaver,
    TranscriptStore,
    memory_input,
)
from langchain_tokenmem.core.covered import covered_end
from langchain_tokenmem.memory.current_words import with_current_words
from langchain_tokenmem.state import new_state
from tests.adapters.integrations import DOORS, contents, state_of, thread
from tests.fakes import CharCounter, ListSummarizer, entries_of, log_text
from tests.summarize.models import Scripted

BUDGET = TokenBudget(context_window=1_200)


def secret(key: str | None) -> str:
    return f"/{key}.pem"


def talk(turns: int, start: int = 0) -> list[BaseMessage]:
    """Return a conversation in which each message names a file of its own."""
    found: list[BaseMessage] = []
    for turn in range(start, turns):
        found += [
            HumanMessage(f"We decided to name /h{turn}.pem. " + "A fine day. " * 12, id=f"h{turn}"),
            AIMessage(f"I wrote to /a{turn}.pem for you. " + "Calm sea. " * 12, id=f"a{turn}"),
        ]
    return found


def memory_of(**keywords: Any) -> TokenMemory:
    return TokenMemory(BUDGET, counter=CharCounter(), **keywords)


def pruned_graph(memory: TokenMemory, saver: TokenMemorySaver) -> Any:
    """Return a model, and a graph that removes the messages that its summary covers."""
    model = Scripted(answer=lambda _messages: "Yes.")
    builder = StateGraph(MemoryMessagesState)
    builder.add_node("model", lambda state: {"messages": model.invoke(memory_input(state, memory))})
    builder.add_node("sum", MemoryNode(memory))
    builder.add_node("prune", CompactNode(memory, archive=saver.store, prune=True))
    builder.add_edge(START, "sum").add_edge("sum", "prune").add_edge("prune", "model")
    return model, builder.compile(checkpointer=saver)


class Door:
    """A thread of one of the graphs with a memory, whose saver hides what is removed."""

    def __init__(self, name: str, store: TranscriptStore, memory: TokenMemory, **saver: Any):
        make = {**DOORS, "prune": pruned_graph}[name]
        keeps = TokenMemorySaver(store, **{"on_remove": "hide", **saver})
        self.model, self.graph = make(memory, keeps)

    def say(self, *messages: BaseMessage) -> str:
        """Return the request that the model received."""
        self.graph.invoke({"messages": [*messages]}, thread())
        return contents(self.model.requests[-1])

    def change(self, *messages: BaseMessage) -> None:
        self.graph.update_state(thread(), {"messages": [*messages]})

    def remove(self, *keys: str) -> None:
        self.change(*(RemoveMessage(id=key) for key in keys))

    def state(self) -> Any:
        return state_of(self.graph) or new_state()


def kept(state: Any) -> str:
    """Return all that a state says of its messages."""
    return str({key: state.get(key) for key in ("summary", "blocks", "modes", "turns", "pins")})


@pytest.mark.slow
@pytest.mark.parametrize("name", DOORS)
def test_a_trim_of_all_that_is_covered_leaves_no_summary_of_it(name):
    with TranscriptStore("sqlite://") as store:
        door = Door(name, store, memory_of())
        door.say(*talk(12))
        covered = door.state()["summary"]["covered"]
        gone = [m.id or "" for m in talk(12)[: covered + 1]]
        door.remove(*gone)
        request = door.say(HumanMessage("And now?", id="now"))
        assert [key for key in gone if secret(key) in request + str(door.state())] == []
        assert door.state()["summary"] is None
        assert secret("a11") in request


@pytest.mark.slow
def test_messages_that_the_memory_prunes_itself_stay_in_the_summary():
    with TranscriptStore("sqlite://") as store:
        door = Door("prune", store, memory_of(summarizer=ListSummarizer()))
        door.say(*talk(12))
        before = entries_of(door.state())
        assert door.state()["pruned"]
        door.say(HumanMessage("And now?", id="now"))
        assert entries_of(door.state()) == before
        pointer = door.state()["summary"]["covers_to"]
        door.remove(pointer)
        request = door.say(HumanMessage("And then?", id="then"))
        assert secret(pointer) not in request
        assert [e["reason"] for e in entries_of(door.state()) if e not in before] == ["removed"]
        assert secret(door.state()["summary"]["covers_to"]) in log_text(door.state())


def test_a_history_of_the_thread_forgets_what_its_graph_hides():
    with TranscriptStore("sqlite://") as store:
        door = Door("node", store, memory_of())
        door.say(*talk(12))
        history = TokenMemoryChatHistory("t", memory=memory_of(), store=store)
        assert secret("h6") in contents(history.messages)
        door.remove("h6")
        again = TokenMemoryChatHistory("t", memory=memory_of(), store=store)
        assert secret("h6") not in contents(again.messages)
        state = store.state("t").state
        assert secret("h6") not in str(state)
        assert [entry["reason"] for entry in entries_of(state)] == ["removed"]
        assert again.messages
        assert store.state("t").state == state


def removed(there: list[BaseMessage], state: Any) -> Any:
    """Return the state without words of messages that are not there."""
    return with_current_words(there, state, CharCounter().text, hides=True)


@pytest.mark.slow
@given(st.lists(st.sets(st.integers(0, 35), max_size=12), min_size=1, max_size=3), st.booleans())
def test_words_that_were_hidden_never_stand_in_a_request_again(cuts, is_condensed):
    memory, said, state = memory_of(), talk(18), None
    for end in range(6, 31, 6):
        state = memory.compact(said[:end], state)
    if is_condensed:
        state = memory.compact(said[:30], state, instruction="Keep the prices.")
    there = said
    for places in cuts:
        before = state
        gone = {said[place].id for place in places}
        there = [m for m in there if m.id not in gone]
        state = removed(there, state)
        assert removed(there, state) is state
        held = {e["id"]: e["tokens"] for e in entries_of(before)}
        assert sum(e["tokens"] for e in entries_of(state)) <= sum(held.values())
        if not there:
            return
        state, view = memory.compact_and_view(there, state)
        left = {m.id for m in there}
        lost = [m.id for m in said if m.id not in left and secret(m.id) in log_text(state)]
        assert lost == []
        assert not [m.id for m in said if m.id not in left and secret(m.id) in str(view.messages)]
        assert view.usage.input_tokens <= BUDGET.limit
        if state["summary"] is None or covered_end(there, state["summary"]) < len(there):
            assert secret(there[-1].id) in str(view.messages)


@pytest.mark.slow
@settings(max_examples=settings.default.max_examples // 4)
@example("prune", "code", [("say", 1), ("say", 1), ("edit", 0)])
@example("prune", "reasoning", [("say", 0), ("remove", 0), ("say", 0), ("edit", 0), ("say", 0)])
@given(
    st.sampled_from([*DOORS, "prune"]),
    st.sampled_from([None, "code", "conversation", "reasoning"]),
    st.lists(
        st.tuples(st.sampled_from(["say", "remove", "edit"]), st.integers(0, 40)),
        min_size=2,
        max_size=8,
    ),
)
def test_no_request_and_no_state_of_any_door_has_words_that_the_thread_hides(name, mode, steps):
    with TranscriptStore("sqlite://") as store:
        door = Door(name, store, memory_of(mode=mode))
        door.say(*talk(10))
        gone: set[str] = set()
        for number, (kind, place) in enumerate(steps):
            held = [
                m for m in door.graph.get_state(thread()).values["messages"] if m.type == "human"
            ]
            key = held[place % len(held)].id if held else None
            if kind == "say" or key is None:
                request = door.say(*talk(20 + number + place % 3, 20 + number))
                assert [one for one in gone if secret(one) in request + kept(door.state())] == []
            elif kind == "remove":
                gone.add(key)
                door.remove(key)
            else:
                gone.add(key)
                door.change(HumanMessage("Nothing to see.", id=key))
        request = door.say(HumanMessage("And now?", id="last"))
        assert [one for one in gone if secret(one) in request + kept(door.state())] == []

"""Beside LangChain's ContextEditingMiddleware: what it clears is no edit, and hides no edit."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from langchain_tokenmem import (
    Recall,
    TokenBudget,
    TokenMemory,
    TokenMemoryMiddleware,
    TranscriptStore,
)
from langchain_tokenmem.core.edited_words import as_said, with_said, without_said
from tests.fakes import CharCounter, entries_of, log_text
from tests.summarize.models import Scripted

OLD = "/z.key"
ONE: Any = {"configurable": {"thread_id": "t"}}


def talk(turns: int, start: int = 0) -> list[BaseMessage]:
    """Return a conversation in which the second question names a secret."""
    found: list[BaseMessage] = []
    for turn in range(start, turns):
        word = f"the file {OLD}" if turn == 1 else "the harbour"
        call = {"name": "read", "args": {"path": f"f{turn}.py"}, "id": f"c{turn}"}
        found += [
            HumanMessage(f"We decided to name {word} on crate {turn}.", id=f"h{turn}"),
            AIMessage("", tool_calls=[call], id=f"call{turn}"),
            ToolMessage(f"def parse_{turn}(): ... " * 6, tool_call_id=f"c{turn}", id=f"t{turn}"),
            AIMessage("That is so. " * 16, id=f"a{turn}"),
        ]
    return found


class Agent:
    """An agent with both middlewares; keeps the requests of its model."""

    def __init__(self, trigger: int, *, clear_tool_inputs: bool = False, **keywords: Any):
        self.requests: list[list[BaseMessage]] = []
        budget = TokenBudget(context_window=1_200)
        memory = TokenMemory(budget, counter=CharCounter(), **{"background": False, **keywords})
        edit = ClearToolUsesEdit(trigger=trigger, keep=1, clear_tool_inputs=clear_tool_inputs)
        clears = ContextEditingMiddleware(edits=[edit], token_counter=len)
        self.graph: Any = create_agent(
            Scripted(answer=self._answer),
            middleware=[clears, TokenMemoryMiddleware(memory)],
            checkpointer=InMemorySaver(),
        )

    def _answer(self, messages: list[BaseMessage]) -> str:
        self.requests.append(messages)
        return "Noted."

    def say(self, *messages: BaseMessage) -> list[BaseMessage]:
        self.graph.invoke({"messages": [*messages]}, ONE)
        return self.requests[-1]

    def state(self) -> Any:
        return self.graph.get_state(ONE).values["token_memory"]["TokenMemoryMiddleware"]


@pytest.mark.slow
@pytest.mark.parametrize("clear_tool_inputs", [False, True])
@pytest.mark.parametrize("trigger", [2, 50], ids=["before the entry", "behind the entry"])
def test_an_edit_is_noticed_beside_results_that_are_cleared(trigger, clear_tool_inputs):
    agent = Agent(trigger, clear_tool_inputs=clear_tool_inputs)
    agent.say(*talk(12))
    before = entries_of(agent.state())
    assert before[0]["words"]
    assert OLD in log_text(agent.state())
    for turn in (12, 13):
        request = agent.say(*talk(turn + 1, turn)[:1])
        assert entries_of(agent.state())[: len(before)] == before, "clearing is no edit"
    edit = HumanMessage("We decided to name the [REDACTED] on crate 1.", id="h1")
    agent.graph.update_state(ONE, {"messages": [edit]})
    request = agent.say(HumanMessage("And now?", id="now"))
    after = entries_of(agent.state())
    assert OLD not in str(request) + str(after)
    assert after[0]["reason"] == "edited"
    agent.say(HumanMessage("And then?", id="then"))
    assert entries_of(agent.state())[0] == after[0]


def test_a_request_has_nothing_of_what_was_cleared():
    agent = Agent(2)
    request = agent.say(*talk(4))
    assert "[cleared]" in str(request)
    assert "parse_0" not in str(request)
    assert "parse_3" in str(request)
    held = str(agent.graph.get_state(ONE).values["messages"])
    assert "parse_0" in held
    assert "said" not in held


def test_recall_is_given_the_results_and_not_their_placeholders():
    with TranscriptStore("sqlite://") as store, Recall(store) as recall:
        agent = Agent(2, recall=recall)
        agent.say(*talk(4))
        assert "parse_0" in str(store.get("t", "t0").content)
        assert recall.search("parse_0", session_id="t")


def test_a_cleared_message_carries_what_it_said_and_loses_it_again():
    said = ToolMessage("found", tool_call_id="c", id="t", response_metadata={"a": 1})
    other = HumanMessage("hi", id="h")
    cleared = said.model_copy(
        update={"content": "[cleared]", "response_metadata": {"context_editing": {"cleared": True}}}
    )
    carrying = with_said([other, cleared], [said])
    assert carrying[0] is other
    assert carrying[1].content == "[cleared]"
    assert as_said(carrying[1]) == said
    assert without_said(carrying[1]) == cleared
    assert with_said([cleared], [])[0] is cleared

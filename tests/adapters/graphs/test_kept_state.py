"""The memory's state is kept in graphs whose schema does not name it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from pydantic import BaseModel
from typing_extensions import TypedDict

from langchain_tokenmem import (
    MemoryMessagesState,
    MemoryNode,
    Recall,
    SummarizeNode,
    TokenMemory,
    TranscriptStore,
    memory_input,
    memory_nodes,
)
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.graphs import MemoryAgentState
from langchain_tokenmem.tools import compact_conversation_tool
from tests.adapters.graphs.test_nodes import config, memory_of
from tests.fakes import words_of
from tests.summarize.models import Scripted

TURNS = 30


class Model(BaseModel):
    messages: Annotated[list[AnyMessage], add_messages] = []


@dataclass
class Data:
    messages: Annotated[list[AnyMessage], add_messages] = field(default_factory=list)


def question(number: int) -> dict[str, str]:
    return {"messages": f"Question {number}? " * 30}


def graph_of(schema: Any, memory: TokenMemory, **keywords: Any) -> tuple[list, Any]:
    """Return the views of a model's node, and its graph, in which only the schema is said."""
    views: list = []
    name = {"name": keywords["name"]} if "name" in keywords else {}

    def call_model(state: Any) -> dict:
        views.append(memory_input(state, memory, **name))
        return {"messages": [AIMessage("ok " * 60)]}

    builder = StateGraph(schema)
    builder.add_node("model", call_model)
    builder.add_edge(START, memory_nodes(builder, memory, **keywords))
    return views, builder.compile(checkpointer=InMemorySaver())


def played(schema: Any, **keywords: Any) -> tuple[TokenMemory, list, Any]:
    memory = memory_of()
    views, graph = graph_of(schema, memory, **keywords)
    for number in range(TURNS):
        graph.invoke(question(number), config())
    return memory, views, graph


@pytest.mark.slow
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("schema", [MessagesState, Model, Data])
def test_a_graph_without_a_channel_for_the_memory_is_not_summarized_again_and_again(schema, split):
    memory, views, graph = played(schema, split=split)
    expected, same, _ = played(MemoryMessagesState, split=split)
    assert len(memory.summarizer.requests) == len(expected.summarizer.requests) <= 5
    assert [words_of(view) for view in views] == [words_of(view) for view in same]
    saved = graph.checkpointer.get_tuple(config()).checkpoint["channel_values"]
    assert saved["memory"]["summary"]
    assert not saved.keys() & {"llm_input_messages", "llm_input_stamp"}
    assert set(graph.invoke(question(99), config())) == {"messages"}


@pytest.mark.slow
def test_a_models_node_whose_hint_names_messages_only_sends_the_summary():
    memory = memory_of()
    views = []

    def call_model(state: MessagesState) -> dict:
        assert set(state) == {"messages"}
        views.append(memory_input(state, memory))
        return {"messages": [AIMessage("ok " * 60)]}

    builder = StateGraph(MessagesState)
    entry = memory_nodes(builder, memory)
    builder.add_node("model", call_model)
    builder.add_edge(START, entry)
    graph = builder.compile(checkpointer=InMemorySaver())
    for number in range(TURNS):
        graph.invoke(question(number), config())
    assert "conversation_summary" in views[-1][0].text
    assert len(memory.summarizer.requests) <= 5


@pytest.mark.slow
@pytest.mark.parametrize("node", [MemoryNode, SummarizeNode])
def test_a_node_that_is_added_by_hand_brings_its_channel(node):
    memory, views = memory_of(), []

    def call_model(state: MessagesState) -> dict:
        views.append(memory_input(state, memory))
        return {"messages": [AIMessage("ok " * 60)]}

    builder = StateGraph(MessagesState)
    builder.add_node("mine", node(memory))
    builder.add_node("model", call_model)
    builder.add_edge(START, "mine")
    builder.add_edge("mine", "model")
    graph = builder.compile(checkpointer=InMemorySaver())
    for number in range(TURNS):
        graph.invoke(question(number), config())
    assert len(memory.summarizer.requests) <= 5
    assert "conversation_summary" in views[-1][0].text


@pytest.mark.slow
@pytest.mark.parametrize("keywords", [{}, {"state_schema": MemoryAgentState}])
def test_the_pre_model_hook_of_an_agent_without_state_schema_keeps_its_state(keywords):
    memory = memory_of()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LangGraph points to langchain's create_agent
        from langgraph.prebuilt import create_react_agent

        agent = create_react_agent(
            Scripted(answer=lambda _messages: "ok " * 60),
            [compact_conversation_tool()],
            pre_model_hook=MemoryNode(memory),
            checkpointer=InMemorySaver(),
            **keywords,
        )
    for number in range(60):
        agent.invoke(question(number), config())
    assert len(memory.summarizer.requests) <= 10


@pytest.mark.slow
def test_keys_of_a_node_are_channels_by_their_own_names():
    class Chat(TypedDict):
        chat: Annotated[list[AnyMessage], add_messages]

    memory = memory_of()
    keys = {"input_messages_key": "chat", "output_messages_key": "sent", "state_key": "mem"}
    builder = StateGraph(Chat)
    builder.add_node("mine", MemoryNode(memory, **keys))
    builder.add_node("model", lambda state: {"chat": [AIMessage("ok " * 60)]})
    builder.add_edge(START, "mine")
    builder.add_edge("mine", "model")
    graph = builder.compile(checkpointer=InMemorySaver())
    for number in range(TURNS):
        graph.invoke({"chat": question(number)["messages"]}, config())
    assert len(memory.summarizer.requests) <= 5
    assert graph.get_state(config()).values["mem"]["summary"]


@pytest.mark.slow
def test_a_state_that_has_the_channels_keeps_its_own():
    class Own(MessagesState):
        memory: dict
        llm_input_messages: list

    memory, _, graph = played(Own)
    assert len(memory.summarizer.requests) <= 5
    assert "llm_input_messages" in graph.get_state(config()).values


@pytest.mark.slow
@pytest.mark.parametrize("split", [False, True])
def test_two_memories_in_one_graph_by_their_names(split):
    wide, narrow = memory_of(4_000), memory_of(1_000)
    seen: dict[str, list] = {"wide": [], "narrow": []}
    builder = StateGraph(MessagesState)
    entries = {}
    for name, memory in (("wide", wide), ("narrow", narrow)):

        def call_model(state: MessagesState, name: str = name, memory: Any = memory) -> dict:
            seen[name].append(memory_input(state, memory, name=name))
            return {"messages": [AIMessage("ok " * 60)]}

        builder.add_node(name + "_model", call_model)
        before = name + "_model"
        entries[name] = memory_nodes(builder, memory, before, name=name, split=split)
    builder.add_edge(START, entries["wide"])
    builder.add_edge("wide_model", entries["narrow"])
    graph = builder.compile(checkpointer=InMemorySaver())
    for number in range(TURNS):
        graph.invoke(question(number), config())
    held = graph.get_state(config()).values
    assert {"wide", "narrow"} <= held.keys()
    assert "memory" not in held
    assert held["wide"]["summary"]["covered"] < held["narrow"]["summary"]["covered"]
    for name, memory in (("wide", wide), ("narrow", narrow)):
        sizes = [memory.count(view).tokens for view in seen[name]]
        assert max(sizes) <= memory.budget.limit
        assert len(memory.summarizer.requests) < TURNS / 2
    assert max(wide.count(view).tokens for view in seen["wide"]) > narrow.budget.limit


def test_the_recall_node_is_drawn_only_where_something_is_recalled():
    with TranscriptStore("sqlite://") as store:
        for recall, first in ((None, "memory_compact"), (Recall(store), "memory_recall")):
            _, graph = graph_of(MessagesState, memory_of(recall=recall), split=True)
            assert (("memory_recall" in graph.nodes), ("memory_compact" in graph.nodes)) == (
                recall is not None,
                True,
            )
            assert (START, first) in {(e.source, e.target) for e in graph.get_graph().edges}


@pytest.mark.parametrize("name", ["", " ", None, 7])
def test_a_name_that_names_nothing_is_refused(name):
    with pytest.raises(ConfigurationError, match="name is"):
        memory_nodes(StateGraph(MessagesState), memory_of(), name=name)

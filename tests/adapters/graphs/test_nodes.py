"""The memory as graph nodes: ids, system messages, pruning, and streams without a summarizer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from blockbuster import blockbuster_ctx
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from typing_extensions import TypedDict

from langchain_tokenmem import (
    CompactNode,
    MemoryMessagesState,
    MemoryNode,
    RecallNode,
    SummarizeNode,
    TokenBudget,
    TokenMemory,
    TranscriptStore,
    memory_input,
    memory_nodes,
)
from langchain_tokenmem.core.messages import marked
from langchain_tokenmem.errors import ConfigurationError, ScopeError
from tests.fakes import CharCounter, ListSummarizer, entries_of
from tests.legality import problems
from tests.summarize.models import Scripted


def memory_of(window: int = 2_000, **keywords: Any) -> TokenMemory:
    return TokenMemory(
        TokenBudget(context_window=window),
        counter=CharCounter(),
        summarizer=ListSummarizer(),
        **keywords,
    )


def conversation(turns: int, words: int = 30) -> list:
    said: list = []
    for n in range(turns):
        key = f"c{n}"
        said += [
            HumanMessage(f"Question {n}? " * words, id=f"h{n}"),
            AIMessage("", tool_calls=[{"name": "f", "args": {"n": n}, "id": key}], id=f"a{n}"),
            ToolMessage(f"line {n}\n" * 6 * words, tool_call_id=key, id=f"t{n}"),
            AIMessage(f"Answer {n}. " * words, id=f"b{n}"),
        ]
    return said


def config(thread: str = "t", **more: Any) -> dict:
    return {"configurable": {"thread_id": thread, **more}}


@pytest.fixture
def store():
    with TranscriptStore("sqlite://") as store:
        yield store


def graph_of(memory, model=None, **keywords):
    seen: list = []

    def call_model(state: MemoryMessagesState) -> dict:
        seen.append(memory_input(state, memory))
        return {"messages": [AIMessage("ok " * 60)]}

    builder = StateGraph(MemoryMessagesState)
    builder.add_node("model", model or call_model)
    builder.add_edge(START, memory_nodes(builder, memory, **keywords))
    return seen, builder.compile(checkpointer=InMemorySaver())


def test_a_node_writes_state_and_view_and_removes_nothing():
    memory, messages = memory_of(), conversation(12)
    update = MemoryNode(memory).invoke({"messages": messages})
    assert "messages" not in update
    assert update["memory"]["summary"]
    view = memory.view(messages, update["memory"])
    assert update["llm_input_messages"] == view.messages
    assert view.usage.input_tokens <= memory.budget.limit


async def test_sync_and_async_nodes_give_the_same_without_blocking_the_loop(store):
    messages = conversation(12)
    for make in (MemoryNode, SummarizeNode, CompactNode):
        memory = memory_of()
        one = make(memory).invoke({"messages": messages})
        with blockbuster_ctx():
            two = await make(memory).ainvoke({"messages": messages})
        for update in (one, two):
            for entry in entries_of(update.get("memory")):
                entry |= {"created_at": "now", "id": "by the time"}
        assert one == two


async def test_pruning_does_not_block_the_loop(tmp_path):
    with TranscriptStore(f"sqlite:///{tmp_path}/m.db") as store:
        memory, messages = memory_of(), conversation(12)
        state = memory.compact(messages)
        node = CompactNode(memory, archive=store, prune=True)
        with blockbuster_ctx():
            update = await node.ainvoke({"messages": messages, "memory": state}, config())
    assert update["messages"]


def test_the_compact_node_calls_no_summarizer():
    memory, messages = memory_of(), conversation(12)
    update = CompactNode(memory).invoke({"messages": messages})
    assert memory.summarizer.requests == []
    assert update["memory"]["cuts"]
    assert update["memory"]["summary"] is None
    assert "left out here" in update["llm_input_messages"][0].text


@pytest.mark.slow
def test_split_and_single_nodes_give_the_same_views():
    for window in (1_000, 2_000, 4_000):
        one, single = graph_of(memory_of(window))
        two, split = graph_of(memory_of(window), split=True)
        for said in conversation(14):
            for graph in (single, split):
                graph.invoke({"messages": [said]}, config())
        plain = [[(m.type, m.content) for m in view] for view in one]
        assert [[(m.type, len(m.content)) for m in view] for view in two] == [
            [(kind, len(content)) for kind, content in view] for view in plain
        ]
        assert any("conversation_summary" in str(view[0]) for view in plain)


def test_other_state_shapes_by_their_keys():
    class State(TypedDict):
        chat: Annotated[list[AnyMessage], add_messages]
        view: list[AnyMessage]
        mem: dict

    memory = memory_of()
    keys = {"input_messages_key": "chat", "output_messages_key": "view", "state_key": "mem"}
    seen = []

    def call_model(state: State) -> dict:
        seen.append(memory_input(state, memory, **keys))
        assert seen[-1] == state["view"]
        return {"chat": [AIMessage("ok " * 60)]}

    builder = StateGraph(State)
    builder.add_node("model", call_model)
    builder.add_edge(START, memory_nodes(builder, memory, **keys))
    graph = builder.compile()
    result = graph.invoke({"chat": conversation(12)})
    assert result["mem"]["summary"]
    assert len(result["chat"]) == 49
    assert len(seen[0]) < 30

    @dataclass
    class Held:
        messages: list = field(default_factory=list)
        memory: Any = None

    assert MemoryNode(memory).invoke(Held(conversation(1)))["llm_input_messages"]


@pytest.mark.slow
def test_all_stream_modes_leave_the_same_state_without_repeated_ids():
    states = []
    for mode in ("values", "updates", "messages", "custom"):
        _, graph = graph_of(memory_of(), split=True)
        for said in conversation(8):
            for _ in graph.stream({"messages": [said]}, config(), stream_mode=mode):
                pass
        held = graph.get_state(config()).values
        ids = [m.id for m in held["messages"]]
        assert len(ids) == len(set(ids)) == 64
        states.append([m.content for m in held["messages"]])
    assert all(state == states[0] for state in states)


@pytest.mark.slow
def test_no_view_or_update_of_the_nodes_repeats_an_id():
    """Also where the messages have no ids of their own, and the node prunes what it archives."""
    with TranscriptStore("sqlite://") as store:
        for keywords in ({}, {"split": True}, {"split": True, "archive": store, "prune": True}):
            _, graph = graph_of(memory_of(), **keywords)
            views = removed = 0
            for said in conversation(6, 60):
                bare = said.model_copy(update={"id": None})
                stream = graph.stream(
                    {"messages": [bare]}, config(str(keywords)), stream_mode="updates"
                )
                for update in (part for chunk in stream for part in chunk.values() if part):
                    for key in ("messages", "llm_input_messages"):
                        ids = [m.id for m in update.get(key, ()) if m.id is not None]
                        assert len(ids) == len(set(ids))
                    views += bool(update.get("llm_input_messages"))
                    removed += [m.type for m in update.get("messages", ())].count("remove")
            assert views >= 24
            assert bool(removed) == ("prune" in keywords)
            held = [m.id for m in graph.get_state(config(str(keywords))).values["messages"]]
            assert None not in held
            assert len(held) == len(set(held))


def test_a_node_never_writes_an_empty_view():
    memory = memory_of()
    assert MemoryNode(memory).invoke({"messages": []}) == {}
    with pytest.raises(ConfigurationError, match="no message to call the model with"):
        memory_input({"messages": []}, memory)
    with pytest.raises(ConfigurationError, match="must not take its place"):
        MemoryNode(memory, output_messages_key="messages")


@pytest.mark.slow
def test_by_default_the_message_list_of_a_graph_only_grows():
    _, graph = graph_of(memory_of())
    lengths = [
        len(graph.invoke({"messages": [said]}, config())["messages"]) for said in conversation(12)
    ]
    assert lengths == [2 * n for n in range(1, 49)]


@pytest.mark.slow
def test_a_hundred_runs_leave_one_copy_of_each_system_text():
    memory = memory_of()
    seen, graph = graph_of(memory)
    rules = SystemMessage("Rules.", id="sys")
    for number in range(100):
        graph.invoke({"messages": [rules, HumanMessage(f"Question {number}?")]}, config())
    held = graph.get_state(config()).values["messages"]
    assert [m.content for m in held if m.type == "system"] == ["Rules."]
    for view in seen:
        assert [m.type for m in view].count("system") == 1
        assert view[0].text.count("Rules.") == 1
    assert "conversation_summary" in seen[-1][1].text


def summarized_graph(*, split: bool):
    """Return a summarizing model, its memory, and a graph whose model speaks in chunks."""
    notes = "## Goal\nSECRET parcel 4711 goes to Bonn and the user wants a receipt by Friday."
    writer = Scripted(answer=lambda _messages: notes)
    memory = TokenMemory(TokenBudget(2_000), counter=CharCounter(), summarizer=writer)
    speaker = Scripted(answer=lambda _messages: "ok " * 30)

    def call_model(state: MemoryMessagesState) -> dict:
        return {"messages": [speaker.invoke(memory_input(state, memory))]}

    return writer, memory, graph_of(memory, call_model, split=split)[1]


@pytest.mark.slow
@pytest.mark.parametrize("split", [False, True])
async def test_no_summarizer_chunk_is_in_a_graphs_message_stream(split):
    writer, memory, graph = summarized_graph(split=split)
    chunks = []
    for said in conversation(4, 60):
        chunks += graph.stream({"messages": [said]}, config(), stream_mode="messages")
        stream = graph.astream({"messages": [said]}, config("a"), stream_mode="messages")
        chunks += [chunk async for chunk in stream]
    memory.close()
    assert writer.requests
    assert len(chunks) >= 2 * 16 * 30
    assert {metadata["langgraph_node"] for _, metadata in chunks} == {"model"}
    assert "SECRET" not in repr([chunk for chunk, _ in chunks])


@pytest.mark.slow
@pytest.mark.parametrize("split", [False, True])
async def test_no_summarizer_call_is_among_a_graphs_events(split):
    writer, memory, graph = summarized_graph(split=split)
    events = []
    for said in conversation(4, 60):
        events += [e async for e in graph.astream_events({"messages": [said]}, config())]
    memory.close()
    assert writer.requests
    names = [event["event"] for event in events]
    assert names.count("on_chat_model_start") == names.count("on_chat_model_end") == 16
    spoken = [e["data"] for e in events if e["event"] == "on_chat_model_stream"]
    assert len(spoken) >= 16 * 30
    assert "SECRET" not in repr(spoken)


@pytest.mark.slow
def test_pruning_removes_only_archived_messages_and_never_system_or_pinned_ones(store):
    memory = memory_of()
    _, graph = graph_of(memory, split=True, archive=store, prune=True)
    pinned = marked(HumanMessage("Never touch prod.", id="pin"), pinned=True)
    said = [
        HumanMessage("First.", id="h"),
        SystemMessage("Rules.", id="sys"),
        pinned,
        *conversation(30),
    ]
    for message in said:
        graph.invoke({"messages": [message]}, config())
    held = graph.get_state(config()).values
    ids = [m.id for m in held["messages"]]
    assert {"h", "sys", "pin"} <= set(ids)
    assert held["memory"]["summary"]["covers_to"] in ids
    assert len(ids) < 40
    archived = {m.id: m for m in store.messages("t")}
    for message in said:
        if message.id not in ids:
            assert archived[message.id] == message
    view = memory.view(held["messages"], held["memory"])
    assert problems(view.messages) == []
    assert view.messages[0].content == "Rules."
    assert view.usage.parts["summary"] > 0


def test_what_the_store_does_not_give_back_stays(store, monkeypatch):
    memory, messages = memory_of(), conversation(12)
    state = memory.compact(messages)
    node = CompactNode(memory, archive=store, prune=True)
    monkeypatch.setattr(store, "named", lambda session, ids: [])
    assert "messages" not in node.invoke({"messages": messages, "memory": state}, config())
    monkeypatch.undo()
    update = node.invoke({"messages": messages, "memory": state}, config())
    gone = [m.id for m in update["messages"]]
    assert gone
    assert set(gone) <= {m.id for m in messages}
    assert len(gone) == len(set(gone))
    assert {m.type for m in update["messages"]} == {"remove"}


def test_an_archive_alone_keeps_and_removes_nothing(store):
    memory, messages = memory_of(), conversation(12)
    state = memory.compact(messages)
    update = CompactNode(memory, archive=store).invoke(
        {"messages": messages, "memory": state}, config()
    )
    assert "messages" not in update
    assert store.count("t") > 10


def test_pruning_asks_for_an_archive_and_a_thread(store):
    memory, messages = memory_of(), conversation(12)
    with pytest.raises(ConfigurationError, match="give the store"):
        CompactNode(memory, prune=True)
    node = CompactNode(memory, archive=store, prune=True)
    given = {"messages": messages, "memory": memory.compact(messages)}
    with pytest.raises(ScopeError, match="thread"):
        node.invoke(given)
    node.invoke(given, config("t", checkpoint_ns="child:1f0|memory_compact:2e1"))
    assert store.sessions() == ["t\x1fchild"]


def test_recall_does_nothing_without_a_recall():
    memory = memory_of()
    assert RecallNode(memory).invoke({"messages": conversation(1)}) == {}


@pytest.mark.slow
def test_every_compaction_and_summary_is_an_event_of_the_custom_stream():
    _, graph = graph_of(memory_of(window=4_000))
    events = []
    # Where only results are long it is enough to shorten them.
    results = [
        said for said in conversation(12, words=90) if said.type != "human" or said.id == "h0"
    ]
    results = [m if m.type == "tool" else m.model_copy(update={"content": "So."}) for m in results]
    for thread, talk in (("results", results), ("t", conversation(30))):
        for said in talk:
            events += graph.stream({"messages": [said]}, config(thread), stream_mode="custom")
    kinds = [event["event"] for event in events]
    assert {"compaction", "summary"} == set(kinds)
    state = graph.get_state(config()).values["memory"]
    last = [event for event in events if event["event"] == "summary"][-1]
    assert last["covers_to"] == state["summary"]["covers_to"]
    assert last["memory"] == "memory"
    # Outside of a graph nobody listens, and nothing fails.
    assert MemoryNode(memory_of()).invoke({"messages": conversation(9)})["memory"]


def test_two_memories_in_one_step_keep_separate_states_while_one_prunes(store):
    class TwoMemories(MemoryMessagesState):
        memory: Any
        other: Any

    memory, said = memory_of(), conversation(12)
    builder = StateGraph(TwoMemories)
    for name, key in (("one", "memory"), ("two", "other")):
        keys = {"state_key": key, "output_messages_key": f"view_{name}"}
        builder.add_node(name, CompactNode(memory, archive=store, prune=name == "one", **keys))
        builder.add_edge(START, name)
    graph = builder.compile(checkpointer=InMemorySaver())
    state = memory.compact(said)
    left = graph.invoke({"messages": said, "memory": state, "other": state}, config())["messages"]
    assert 0 < len(left) < len(said)
    assert [m.id for m in left] == [m.id for m in said if m.id in {k.id for k in left}]

"""The memory as nodes of a graph: what they write, keys and names, pruning."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph, add_messages
from langgraph.types import Send
from pydantic import BaseModel
from typing_extensions import TypedDict

import langchain_tokenmem
from langchain_tokenmem import (
    CompactNode,
    MemoryMessagesState,
    MemoryNode,
    SummarizeNode,
    TokenMemory,
    memory_input,
    memory_nodes,
)
from langchain_tokenmem.adapters.run_context import has_channel
from langchain_tokenmem.errors import ConfigurationError, ScopeError
from tests.adapters.integrations import (
    contents,
    graph_of,
    graph_with,
    state_of,
    thread,
    tool_turns,
    turns,
)
from tests.contract.chats import Heard
from tests.fakes import memory_of, own_words, words_of
from tests.providers import problems
from tests.summarize.models import Scripted

TURNS = 12
KEYS = {"__pregel_read", "__pregel_checkpointer", "__pregel_runtime"}


def ok() -> dict[str, Any]:
    return {"messages": [AIMessage("ok " * 60)]}


def asked(graph: Any) -> Any:
    """Ask a graph twelve long questions, and return it."""
    for number in range(TURNS):
        graph.invoke({"messages": f"Question {number}? " * 60}, thread())
    return graph


# What nodes write


def test_the_view_is_in_no_output_and_in_no_checkpoint():
    _, graph = graph_with(memory_of())
    assert set(graph.invoke({"messages": tool_turns(12)}, thread())) == {"messages"}
    assert "llm_input_messages" not in graph.get_output_jsonschema()["properties"]
    for saved in graph.checkpointer.list(thread()):
        held = saved.checkpoint["channel_values"]
        assert not held.keys() & {"llm_input_messages", "llm_input_stamp"}


def test_messages_behind_the_memorys_node_are_in_the_view():
    memory, messages = memory_of(), tool_turns(12)
    update = MemoryNode(memory).invoke({"messages": messages})
    state = {"messages": messages, **update}
    assert memory_input(state, memory) == update["llm_input_messages"]
    later = {**state, "messages": [*messages, HumanMessage("And now?", id="new")]}
    assert memory_input(later, memory)[-1].id == "new"
    edited = [*messages[:-1], messages[-1].model_copy(update={"content": "Else."})]
    assert memory_input({**state, "messages": edited}, memory)[-1].content == "Else."


@pytest.mark.parametrize("keeps_ids", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_copies_of_the_conversation_have_its_summary_and_other_messages_have_not(keeps_ids):
    memory, seen, of_worker = memory_of(), [], []

    def look(state):
        copies = [m.model_copy(update={} if keeps_ids else {"id": None}) for m in state["messages"]]
        is_worker = state["messages"][0].content == "Grade this essay."
        (of_worker if is_worker else seen).append(memory_input({"messages": copies}, memory))
        return {} if is_worker else ok()

    builder = StateGraph(MemoryMessagesState).add_node("model", look).add_node("worker", look)
    builder.add_edge(START, memory_nodes(builder, memory, before="model"))
    task = {"messages": [HumanMessage("Grade this essay.")]}
    builder.add_conditional_edges("model", lambda _state: [Send("worker", task)], ["worker"])
    graph = asked(builder.compile(checkpointer=InMemorySaver()))
    assert state_of(graph)["summary"]
    assert "conversation_summary" in str(seen[-1])
    assert [words_of(request) for request in of_worker] == [["Grade this essay."]] * TURNS


# Schemas, keys and names


class Model(BaseModel):
    messages: Annotated[list[AnyMessage], add_messages] = []


@dataclass
class Data:
    messages: Annotated[list[AnyMessage], add_messages] = field(default_factory=list)


def played(schema: Any, node: Any = None) -> tuple[TokenMemory, list, Any]:
    """Play a graph in which only the schema is said, or whose memory's node is added by hand."""
    memory, views = memory_of(), []

    def call_model(state: schema) -> dict:
        views.append(memory_input(state, memory))
        return ok()

    call_model.__annotations__["state"] = schema
    if not node:
        return memory, views, asked(graph_of(call_model, memory, schema=schema))
    builder = StateGraph(schema).add_sequence([("mine", node(memory)), ("model", call_model)])
    graph = builder.add_edge(START, "mine").compile(checkpointer=InMemorySaver())
    return memory, views, asked(graph)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schema", "node"),
    [
        (MessagesState, None),
        (Model, None),
        (Data, None),
        (MessagesState, MemoryNode),
        (MessagesState, SummarizeNode),
    ],
)
def test_a_graph_without_a_channel_for_the_memory_keeps_its_state(schema, node):
    memory, views, graph = played(schema, node)
    expected, same, _ = played(MemoryMessagesState)
    assert len(memory.summarizer.requests) == len(expected.summarizer.requests) <= 5
    assert [words_of(view) for view in views] == [words_of(view) for view in same]
    assert state_of(graph)["summary"]
    assert set(asked(graph).invoke({"messages": "And?"}, thread())) == {"messages"}


def test_other_state_shapes_by_their_keys():
    class State(TypedDict):
        chat: Annotated[list[AnyMessage], add_messages]

    memory, seen = memory_of(), []
    keys = {"input_messages_key": "chat", "output_messages_key": "view", "state_key": "mem"}

    def call_model(state: State) -> dict:
        seen.append(memory_input(state, memory, **keys))
        return {"chat": ok()["messages"]}

    graph = graph_of(call_model, memory, schema=State, **keys)
    result = graph.invoke({"chat": tool_turns(12)}, thread())
    assert graph.get_state(thread()).values["mem"]["summary"]
    assert len(result["chat"]) == 49
    assert len(seen[0]) < 30


@pytest.mark.slow
@pytest.mark.parametrize("split", [False, True])
def test_two_memories_in_one_graph_by_their_names(split):
    memories = {"wide": memory_of(3_000), "narrow": memory_of(1_000)}
    largest = dict.fromkeys(memories, 0)
    builder, before = StateGraph(MessagesState), START
    for name, memory in memories.items():

        def call_model(state: MessagesState, name: str = name, memory: Any = memory) -> dict:
            view = memory_input(state, memory, name=name)
            largest[name] = max(largest[name], memory.count(view).tokens)
            return ok()

        builder.add_node(f"{name}_model", call_model)
        entry = memory_nodes(builder, memory, f"{name}_model", name=name, split=split)
        builder.add_edge(before, entry)
        before = f"{name}_model"
    graph = asked(builder.compile(checkpointer=InMemorySaver()))
    held = graph.get_state(thread()).values
    assert "memory" not in held
    assert held["wide"]["summary"]["covered"] < held["narrow"]["summary"]["covered"]
    wide, narrow = (memory.budget.limit for memory in memories.values())
    assert largest["narrow"] <= narrow < largest["wide"] <= wide


# Pruning


@pytest.mark.slow
@pytest.mark.parametrize("named", [True, False])
def test_pruning_removes_only_archived_messages_and_never_system_or_pinned_ones(store, named):
    memory = memory_of()
    _, graph = graph_with(memory, split=True, archive=store, prune=True)
    marks = {"tokenmem": {"pinned": True}}
    kept = [
        HumanMessage("First.", id="h"),
        SystemMessage("Rules.", id="sys"),
        HumanMessage("Never touch prod.", id="pin", response_metadata=marks),
    ]
    said = tool_turns(10)
    for message in [*kept, *said]:
        bare = {} if named or message in kept else {"id": None}
        graph.invoke({"messages": [message.model_copy(update=bare)]}, thread())
    held = graph.get_state(thread()).values
    ids = [m.id for m in held["messages"]]
    assert len(ids) == len(set(ids))
    assert {"h", "sys", "pin"} <= set(ids)
    assert held["memory"]["summary"]["covers_to"] in ids
    gone = {*map(own_words, said)} - {*map(own_words, held["messages"])}
    assert gone
    assert gone <= {*map(own_words, store.messages("t"))}
    view = memory.view(held["messages"], held["memory"])
    assert problems(view.messages) == []
    assert view.messages[0].content == "Rules."
    assert view.usage.parts["summary"] > 0


def test_what_the_archive_does_not_give_back_stays(store, monkeypatch):
    memory, messages = memory_of(), tool_turns(12)
    given = {"messages": messages, "memory": memory.compact(messages)}
    keeping = CompactNode(memory, archive=store)
    assert "messages" not in keeping.invoke(given, thread())
    node = CompactNode(memory, archive=store, prune=True)
    monkeypatch.setattr(store, "named", lambda session, ids, **_: [])
    assert "messages" not in node.invoke(given, thread())
    monkeypatch.undo()
    removed = node.invoke(given, thread())["messages"]
    assert {m.type for m in removed} == {"remove"}
    assert {m.id for m in removed} < {m.id for m in store.messages("t")}


def test_pruning_asks_for_an_archive_and_a_thread(store):
    memory, messages = memory_of(), tool_turns(12)
    with pytest.raises(ConfigurationError, match="give the store"):
        CompactNode(memory, prune=True)
    with pytest.raises(ConfigurationError, match="split=True"):
        memory_nodes(StateGraph(MessagesState), memory, archive=store, prune=True)
    given = {"messages": messages, "memory": memory.compact(messages)}
    with pytest.raises(ScopeError, match="thread"):
        CompactNode(memory, archive=store, prune=True).invoke(given)


# The functional API


QUESTIONS = [message for message in turns(60) if message.type == "human"]


def chat_of(memory: TokenMemory) -> tuple[Scripted, Any]:
    """Return a model, and a chat that saves its messages and the memory's state by itself."""
    model = Scripted(answer=lambda _: "Yes. " * 40)
    node = MemoryNode(memory)

    @task
    def remember(state: dict[str, Any]) -> dict[str, Any]:
        return node.invoke(state)

    @task
    def call_model(request: list[Any]) -> Any:
        return model.invoke(request)

    @entrypoint(checkpointer=InMemorySaver())
    def chat(question: Any, *, previous: Any = None) -> Any:
        state = {"messages": [], **(previous or {})}
        state["messages"] = add_messages(state["messages"], question)
        state |= remember(state).result()
        answer = call_model(state.pop("llm_input_messages")).result()
        state["messages"] = add_messages(state["messages"], answer)
        return entrypoint.final(value=answer, save=state)

    return model, chat


@pytest.mark.slow
def test_a_chat_is_summarized_and_keeps_its_state():
    memory = memory_of()
    model, chat = chat_of(memory)
    written = [
        event
        for question in QUESTIONS
        for event in chat.stream(question, thread(), stream_mode="custom")
    ]
    kinds = [event["event"] for event in written]
    assert kinds.count("view") == len(QUESTIONS)
    assert kinds.count("summary") > 1
    covered = [event["covered"] for event in written if event["event"] == "summary"]
    assert covered == sorted(covered)
    assert len(model.requests) == len(QUESTIONS)
    assert all(memory.count(request).tokens <= memory.budget.limit for request in model.requests)
    assert "question 0 " not in contents(model.requests[-1][1:])


@pytest.mark.parametrize("is_graph", [False, True])
def test_a_task_is_no_sub_graph(is_graph):
    """What a task of a task remembers is the thread's."""
    heard = Heard()
    node = MemoryNode(memory_of(callbacks=[heard]))

    @task
    def inner(state: Any) -> None:
        node.invoke(state)

    @task
    def outer(state: Any) -> None:
        inner(state).result()

    def asks(state: MessagesState) -> dict[str, Any]:
        outer({"messages": state["messages"]}).result()
        return {}

    graph = graph_of(asks) if is_graph else entrypoint(checkpointer=InMemorySaver())(asks)
    graph.invoke({"messages": turns(1)[:1]}, thread())
    assert [(event.session, event.thread) for event in heard.events] == [("t", "t")]


# Private keys of LangGraph, for what it has no public way to: reading another channel of the run
# that a node or a tool is in, and running one node again for an explanation


def test_a_node_is_handed_private_keys_of_langgraph_and_no_others_are_used():
    seen: dict[str, Any] = {}

    def look(_: MessagesState) -> dict[str, Any]:
        seen["keys"] = get_config()["configurable"].keys() & KEYS
        seen["channels"] = [has_channel("messages"), has_channel("no_such_channel")]
        return {}

    graph_of(look).invoke({"messages": "Hi."}, thread())
    assert seen == {"keys": KEYS, "channels": [True, False]}, "LangGraph has changed a private key"
    package = Path(langchain_tokenmem.__file__).parent
    text = "".join(file.read_text("utf-8") for file in package.rglob("*.py"))
    assert set(re.findall(r'"(__pregel\w+)"', text)) == KEYS
    assert not re.search(r"(?:from|import) langgraph\S*\._", text)

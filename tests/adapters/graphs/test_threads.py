"""Threads of graphs and agents: their owner, and a memory's state that is lost."""

from functools import partial
from uuid import UUID

import pytest
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from langchain_tokenmem import (
    CompactNode,
    MemoryNode,
    Recall,
    TokenMemoryChatHistory,
    TokenMemoryMiddleware,
    TokenMemorySaver,
    TranscriptRetriever,
    memory_input,
    memory_nodes,
    with_token_memory,
)
from langchain_tokenmem.core.pins import PINS_CHANNEL
from langchain_tokenmem.errors import ScopeError
from langchain_tokenmem.graphs import pin_update
from langchain_tokenmem.state import new_state
from langchain_tokenmem.turns.conversation import TurnRequest
from langchain_tokenmem.turns.graph_thread import GraphThread
from langchain_tokenmem.turns.turn import take_turn
from tests.adapters.integrations import (
    agent_with,
    graph_of,
    graph_with,
    state_of,
    texts,
    thread,
    tool_turns,
)
from tests.contract.chats import Talker
from tests.fakes import log_text, memory_of, talk, words_of
from tests.summarize.models import Scripted

# Owners


@pytest.fixture(params=["InMemorySaver", "TokenMemorySaver"])
def saver(request, store):
    return InMemorySaver() if request.param == "InMemorySaver" else TokenMemorySaver(store)


@pytest.mark.slow
@pytest.mark.parametrize("first", ["u", None])
def test_a_thread_belongs_to_its_first_user_and_another_one_is_refused(door, saver, first):
    _, graph = door(memory_of(), saver)
    asks = {"messages": "What is the code?"}
    graph.invoke(asks, thread(user_id=first) if first else thread())
    graph.invoke(asks, thread(user_id="u"))
    early = graph.get_state(thread()).config["configurable"]
    for config in (thread(user_id="v"), {"configurable": {**early, "user_id": "v"}}):
        with pytest.raises(ScopeError, match="belongs to another user than 'v'"):
            graph.invoke(asks, config)
    for others in (thread(), thread("mine", user_id="v")):  # they go on
        graph.invoke(asks, others)


@pytest.mark.slow
def test_shared_threads_take_every_user(door, saver):
    _, graph = door(memory_of(), saver, shared_threads=True)
    for user in ("u", "v", None):
        graph.invoke({"messages": f"I am {user}."}, thread(user_id=user))
    assert len(graph.get_state(thread()).values["messages"]) == 6


BAD_IDS = ("a\x1fb", "a\x00b", "a\nb", "a\x9f")


@pytest.mark.slow
def test_ids_that_are_no_names_are_refused_by_every_integration(store, door):
    for user in ("", "  ", 7, *BAD_IDS):
        with pytest.raises(ScopeError, match="user_id"):
            door(memory_of())[1].invoke({"messages": "Hello."}, thread(user_id=user))
    model, graph = door(memory_of(), TokenMemorySaver(store))
    chain, said = with_token_memory(model, memory_of(), store), {"messages": [HumanMessage("hi")]}
    node = CompactNode(memory_of(), archive=store)
    for bad in BAD_IDS:
        calls = [partial(one.invoke, said, thread(bad)) for one in (graph, node)]
        for ids in ({"session_id": bad}, {"session_id": "s", "user_id": bad}):
            calls += [
                partial(chain.invoke, "Hello.", {"configurable": ids}),
                partial(TokenMemoryChatHistory, store=store, **ids),
                partial(TranscriptRetriever(recall=Recall(store), **ids).invoke, "?"),
            ]
        for refused in calls:
            with pytest.raises(ScopeError, match="control character"):
                refused()
    assert model.requests == []
    assert store.sessions() == []


@pytest.mark.parametrize("name", ["7", 0, UUID(int=7)])
def test_a_thread_has_one_session_whatever_kind_of_id_names_it(store, name):
    memory, saver = memory_of(8_000, recall=Recall(store)), TokenMemorySaver(store)
    agent = create_agent(Talker(), middleware=[TokenMemoryMiddleware(memory)], checkpointer=saver)
    agent.invoke({"messages": "Where is parcel 4711?"}, thread(name))
    agent.invoke({"messages": "Where?"}, thread(str(name)))
    assert store.sessions() == [str(name)]
    assert len(store.messages(str(name))) == 4
    explained = TokenMemoryMiddleware(memory).explain(agent, thread(name))
    assert explained.messages[-1].content == "Where?"
    saver.delete_thread(name)
    assert store.sessions() == []


# Warnings of a thread


def test_what_a_graph_without_an_edge_to_its_memory_leaves_out_is_logged(caplog):
    memory, builder = memory_of(1_000), StateGraph(MessagesState)

    def model(state):
        return {"messages": [AIMessage(str(len(memory_input(state, memory))))]}

    builder.add_node("model", model)
    memory_nodes(builder, memory)
    builder.add_edge(START, "model")  # not to the memory's node
    graph = builder.compile(checkpointer=InMemorySaver())
    for number in range(9):
        graph.invoke({"messages": f"{number} " * 300}, thread("t7"))
    assert sum(m.startswith("Thread 't7': The oldest messages") for m in caplog.messages) == 1


# A state that is lost: a summary is found again by its words

LOST = "The memory's state was not kept"


@pytest.mark.slow
def test_an_agent_as_a_subgraph_without_a_checkpointer_is_not_summarized_again(caplog):
    played = []
    for checkpointer in (None, True):
        memory, model = memory_of(), Scripted(answer="ok " * 60)
        middleware = [TokenMemoryMiddleware(memory)]
        graph = graph_of(create_agent(model, middleware=middleware, checkpointer=checkpointer))
        caplog.clear()
        for number in range(12):
            graph.invoke({"messages": f"Question {number}? " * 60}, thread())
        assert caplog.text.count(LOST) == (0 if checkpointer else 1)
        assert ("create_agent(..., checkpointer=True)" in caplog.text) is not checkpointer
        requests = [words_of(request) for request in model.requests]
        played.append((len(memory.summarizer.requests), requests))
    assert played[0] == played[1]
    assert 1 <= played[0][0] <= 5


@pytest.mark.slow
@pytest.mark.parametrize("change", ["remove", "edit"])
def test_words_that_were_removed_or_edited_are_in_no_summary_that_others_find(change):
    """A thread's later summaries rest on the earlier ones, and so on words that are gone."""
    memory = memory_of()
    _, graph = graph_with(memory)
    said = tool_turns(20)
    said[28] = HumanMessage("SECRET 4711. " * 9, id="h7")
    gone = RemoveMessage(id="h7") if change == "remove" else HumanMessage("Nothing.", id="h7")
    for message in said[:40]:
        graph.invoke({"messages": [message]}, thread())
    assert "SECRET" in log_text(state_of(graph))
    for message in (gone, *said[40:]):
        graph.invoke({"messages": [message]}, thread())
    held = graph.get_state(thread()).values["messages"]
    again = MemoryNode(memory).invoke({"messages": held}, thread("other"))
    assert again["memory"]["summary"]
    assert "SECRET" not in str(again["memory"])


FRENCH = pin_update("Answer in French.")[PINS_CHANNEL]


@pytest.mark.parametrize(
    ("turns", "made"),
    [
        ((("t1", 12, FRENCH), ("t2", 12, None), ("t3", 12, FRENCH)), [1, 2, 2]),
        ((("t1", 12, FRENCH), ("t1", 18, None), ("t2", 18, None)), [1, 2, 3]),
    ],
    ids=["of another thread", "a second summary"],
)
def test_a_summary_is_found_again_only_where_the_same_pins_were_read(turns, made):
    """Each turn is from no state: the graph loses that of the one before."""
    memory, counts = memory_of(1_000), []
    for name, questions, pins in turns:
        said = [*talk(questions, words=25), HumanMessage("And now?", id="z")]
        names = {"key": ("ann", name, "", "x"), "thread": name, "user_id": "ann"}
        take_turn(GraphThread(memory, said, new_state(), pins=pins, **names), TurnRequest())
        counts.append(len(memory.summarizer.requests))
    assert counts == made


def test_what_was_recalled_for_one_thread_reaches_no_other(store):
    recall = Recall(store)
    recall.add_documents([Document("The ZEBRA word is koala.", id="z")], session_id="one")
    memory = memory_of(recall=recall)
    said = [*tool_turns(12), HumanMessage("What is the ZEBRA word?", id="q")]
    found = {}
    for name in ("one", "two"):
        model, graph = agent_with(memory)
        graph.invoke({"messages": said}, thread(name, user_id="u"))
        found[name] = "koala" in str(texts(model.requests[-1]))
    assert found == {"one": True, "two": False}
    assert len(memory.summarizer.requests) == 1

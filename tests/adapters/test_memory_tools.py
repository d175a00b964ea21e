"""Tools for notes, pins and history: in agents, bare graphs and chains."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.store.memory import InMemoryStore

from langchain_tokenmem import (
    Notebook,
    Recall,
    TokenMemory,
    TokenMemoryMiddleware,
    TranscriptStore,
    memory_tools,
)
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.notes import SqlStore
from langchain_tokenmem.tools import read_message_tool
from tests.adapters.integrations import agent_of, answers, call, graph_with, thread, tool_turns
from tests.fakes import memory_of, replacing
from tests.notes.conftest import notebook_on

ANN = thread("t1", user_id="ann")


def tool_of(name: str, notebook: Notebook | None = None, **options: Any) -> Any:
    """Return one tool of Ann's session `s1`, as chains have it."""
    owner = {"user_id": "ann", "session_id": "s1", **options}
    (made,) = memory_tools(notebook or notebook_on(InMemoryStore()), include={name}, **owner)
    return made


def test_all_tools_of_a_chain_work_on_the_database_of_its_notes(store):
    store.add("s1", [HumanMessage("My order is 4711."), AIMessage("Noted.")], user_id="ann")
    made = memory_tools(notebook_on(SqlStore(store)), session_id="s1", user_id="ann")
    tools = {one.name: one for one in made}
    for arguments in ({"pattern": r"\d{4}"}, {"pattern": "order 4711", "by": "words"}):
        assert "user: My order is 4711." in tools["history_search"].invoke(arguments)
    assert tools["pin_context"].invoke({"text": "Order 4711."}).startswith("Pinned pin_")
    assert tools["memorize"].invoke({"content": "a", "kind": "fact"}).startswith("Saved mem_")


class Broken(InMemoryStore):
    def batch(self, ops):
        raise OSError("disk full")


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("memory", {"action": "fly"}, "Invalid arguments: action: Input should be"),
        ("memory", {"action": "add"}, "content is missing"),
        ("memory", {"action": "get"}, "Name the note"),
        ("memory", {"action": "search"}, "query is missing"),
        ("memory", {"action": "add", "content": "x" * 10_001}, "at most 10,000"),
        ("memorize", {"content": " "}, "not blank"),
        ("pin_context", {}, "text is empty"),
        ("pin_context", {"text": "x"}, "memory_tools(..., store=...)"),
        ("history_search", {"pattern": "("}, "memory_tools(..., store=...)"),
        ("history_search", {"pattern": " "}, "pattern is empty"),
    ],
)
def test_bad_input_gets_a_sentence(tool, arguments, sentence):
    assert sentence in tool_of(tool).invoke(arguments)


def test_trouble_is_an_answer():
    kept = tool_of("memorize", notebook_on(Broken())).invoke({"content": "x"})
    assert kept == "That did not work: OSError. Check the arguments."
    assert "names no user" in tool_of("memorize", user_id=None).invoke({"content": "x"})


# Scope

KEYS = [None, "secret", "../bob", "tokenmem.notes.bob", "=bob", "*", "bob/global", "\0", "%"]
HOSTILE = st.fixed_dictionaries(
    {
        "action": st.sampled_from(["add", "get", "search", "list", "remove"]),
        "key": st.sampled_from(KEYS),
        "id": st.sampled_from([None, "mem_bob", "BOB"]),
        "content": st.sampled_from([None, "hello", "user_id: bob"]),
        "query": st.sampled_from([None, "secret of bob", "*"]),
        "level": st.sampled_from([None, "session", "project", "global"]),
        "tags": st.sampled_from([None, ["bob"], ["*"]]),
    },
    optional={
        "user_id": st.just("bob"),
        "session_id": st.just("b1"),
        "namespace": st.just(["tokenmem", "notes", "=bob"]),
        "project": st.just("bank"),
        "runtime": st.just({"config": thread("b1", user_id="bob")}),
        "config": st.just(thread("b1", user_id="bob")),
        "store": st.just("bob"),
    },
)


@pytest.mark.slow
@given(HOSTILE)
def test_hostile_arguments_never_leave_the_callers_own_scope(arguments):
    store = InMemoryStore()
    bobs = notebook_on(store)
    ids = [
        bobs.add("the secret of bob", key="secret", level=level, user_id="bob", session_id="b1").id
        for level in ("session", "project", "global")
    ]
    bank = notebook_on(store, project="bank").add("the secret of the bank", user_id="ann").id
    before = {(i.namespace, i.key): i.value for i in store.search(("tokenmem",), limit=100)}
    arguments = {**arguments, "id": ids[0] if arguments["id"] == "BOB" else arguments["id"]}
    for owner in ({}, {"user_id": None, "session_id": None}):
        tool = tool_of("memory", notebook_on(store), **owner)
        given = {"name": "memory", "args": arguments, "id": "c1", "type": "tool_call"}
        answer = tool.invoke(given, ANN).content
        assert not [
            word for word in ("secret of bob", "secret of the bank", bank) if word in answer
        ]
    after = {(i.namespace, i.key): i.value for i in store.search(("tokenmem",), limit=100)}
    assert {key: after.get(key) for key in before} == before
    assert all("=ann" in key[0] for key in after.keys() - before.keys())


# The history


@pytest.fixture
def talk(store: TranscriptStore) -> Recall:
    long = HumanMessage("Thanks. " + "x" * 300 + " order 99")
    said = [HumanMessage("The order is 4711."), AIMessage("Order 4711 is on its way."), long]
    store.add("s1", said, user_id="ann")
    store.add("b1", [HumanMessage("Bob has order 1234.")], user_id="bob")
    return Recall(store)


def test_the_history_is_searched_newest_first_by_patterns_and_by_words(talk):
    tool = tool_of("history_search", recall=talk)
    lines = tool.invoke({"pattern": r"order( is)? \d+"}).splitlines()
    assert len({line.split()[0] for line in lines}) == len(lines) == 3
    assert "order 99" in lines[0]
    assert "... xxx" in lines[0]
    assert lines[2].split()[1].startswith("20")
    assert lines[2].endswith("user: The order is 4711.")
    found = tool.invoke({"pattern": "on its way", "by": "words"})
    assert "assistant: Order 4711 is on its way." in found
    assert tool.invoke({"pattern": "monad transformer", "by": "words"}) == "No message matches."
    assert "not a regular expression" in tool.invoke({"pattern": "("})


def test_earlier_answers_do_not_hide_what_they_repeat(store):
    store.add("s1", [HumanMessage("The price is 40.")], user_id="ann")
    tool = tool_of("history_search", recall=Recall(store))
    for number in range(3):
        said = tool.invoke({"pattern": "price", "limit": 1})
        assert said.endswith("user: The price is 40.")
        answer = ToolMessage(said, tool_call_id=f"c{number}", name="history_search")
        asked = call(number, "history_search", pattern="price")
        store.add("s1", [asked, answer], user_id="ann")


def test_the_history_of_others_and_other_conversations_are_not_searched(talk):
    talk.store.add("s2", [HumanMessage("The order is 5678.")], user_id="ann")
    tool = tool_of("history_search", recall=Recall(talk.store, scope="user"))
    for by in ("words", "regex"):
        said = tool.invoke({"pattern": "order", "by": by})
        assert [number in said for number in ("4711", "1234", "5678")] == [True, False, False]
    other = tool_of("history_search", recall=talk, session_id="b1")
    assert "names no user or session" in other.invoke({"pattern": "Bob"})


# Which tools, and what they store


def test_tools_are_chosen_by_name():
    def names(agent_tools):
        middleware = TokenMemoryMiddleware(memory_of(), agent_tools=agent_tools)
        return {tool.name for tool in middleware.tools}

    assert names({"memory", "read_message"}) == {"memory", "read_message"}
    assert names(True) == {"compact_conversation", "read_message"}
    assert names(False) == set()
    with pytest.raises(ConfigurationError, match="agent_tools"):
        names({"fly"})
    assert [tool.name for tool in memory_tools(include={"memorize"})] == ["memorize"]
    with pytest.raises(ConfigurationError, match="include"):
        memory_tools(include={"fly"})
    with pytest.raises(ConfigurationError, match="notebook"):
        memory_tools(InMemoryStore())


def test_a_call_that_the_summary_names_is_read_with_its_arguments_and_result():
    said = tool_turns(4)
    log = TokenMemory(8_000).compact(said, force=True)["summary"]["entries"][0]["text"]
    named = next(line for line in log.splitlines() if "f 2 → " in line)[1:7]
    read = read_message_tool().invoke({"id": named, "state": {"messages": said}, "limit": 20_000})
    assert read.endswith(f'\nf({{"n": 2}})\n→ {said[10].content}')


@pytest.mark.slow
def test_a_pruned_message_is_read_from_the_archive_and_not_without_it(store):
    _, graph = graph_with(memory_of(), split=True, archive=store, prune=True)
    for n in range(20):
        graph.invoke({"messages": [HumanMessage(f"question {n} " * 60, id=f"h{n}")]}, thread())
    state = graph.get_state(thread()).values
    assert "h3" not in {m.id for m in state["messages"]}
    for archive, found in ((store, "question 3"), (None, "There is no message")):
        tool = read_message_tool(archive=archive)
        assert found in tool.invoke({"id": "h3", "state": state}, thread())
        assert "There is no message" in tool.invoke({"id": "h900", "state": state}, thread())


def test_the_tools_of_the_middleware_store_nothing_that_before_store_takes_out():
    store = InMemoryStore()
    tools = {"memory", "memorize", "pin_context"}
    middleware = TokenMemoryMiddleware(
        memory_of(before_store=replacing("[?]", "4711")), agent_tools=tools
    )
    script = [
        call(0, "memorize", content="The card is 4711.", key="card 4711"),
        call(1, "memory", action="get", key="card 4711"),
        call(2, "pin_context", text="Card 4711."),
        call(3, "pin_context", action="unpin", text="Card 4711."),
        AIMessage("Done."),
    ]
    _, agent = agent_of(script, middleware, store=store)
    saved, got, pinned, unpinned = answers(agent.invoke({"messages": "My card."}, ANN))
    assert saved.endswith('(project, key "card [?]").')
    assert got.endswith(": The card is [?].")
    assert pinned.endswith(": Card [?].")
    assert unpinned.startswith("Unpinned pin_")
    pins = agent.get_state(ANN).values["token_memory_pins"]
    assert "4711" not in str([pins, *store.search(("tokenmem",))])

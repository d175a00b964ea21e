"""Tools for notes, pins and history: in agents, bare graphs and chains."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import ToolNode, create_react_agent
from langgraph.store.memory import InMemoryStore

from langchain_tokenmem import (
    MemoryMessagesState,
    Notebook,
    Recall,
    TokenMemoryMiddleware,
    TranscriptStore,
    memory_tools,
)
from langchain_tokenmem.adapters import history_tool as history_tool_module
from langchain_tokenmem.adapters.memory_tools import MEMORY_TOOLS
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.notes import SqlStore
from tests.adapters.agents.test_middleware import agent_of, call, memory_of
from tests.notes.conftest import notebook_on
from tests.providers import StrictModel

ANN = {"configurable": {"thread_id": "t1", "user_id": "ann"}}


class MadeWhenAsked(dict[str, Any]):
    """The tools by name: the schema of each takes milliseconds, and most tests need one."""

    def __init__(self, notebook: Notebook | None, **options: Any) -> None:
        self.made_of: dict[str, Any] = {"notebook": notebook, **options}

    def __missing__(self, name: str) -> Any:
        (self[name],) = memory_tools(**self.made_of, include={name})
        return self[name]


def tools_of(notebook: Notebook | None = None, **options: Any) -> dict[str, Any]:
    return MadeWhenAsked(notebook, **options)


def bound(**options: Any) -> dict[str, Any]:
    owner = {"user_id": "ann", "session_id": "s1", **options}
    return tools_of(notebook_on(InMemoryStore()), **owner)


def answers(result: dict) -> list[str]:
    return [message.content for message in result["messages"] if message.type == "tool"]


SCRIPT = [
    call(0, "memory", action="add", key="build", content="Run make in /src.", tags=["make"]),
    call(1, "memorize", content="Ann wants short answers.", kind="preference"),
    call(2, "memory", action="get", key="build"),
    call(3, "memory", action="search", query="How long should answers be?"),
    call(4, "memory", action="remove", key="build"),
    call(5, "memory", action="get", key="build"),
    call(6, "history_search", pattern="Go on"),
    AIMessage("Done."),
]


def check(given: list[str]) -> None:
    saved, kept, got, found, removed, none, seen = given
    assert saved.startswith("Saved mem_")
    assert saved.endswith('(project, key "build", tags: make, /src).')
    assert kept.endswith("(global).")
    assert got.endswith(": Run make in /src.")
    assert "preference (global): Ann wants short answers. [mem_" in found
    assert removed.startswith("Removed mem_")
    assert none == 'There is no note "build".'
    assert seen.endswith(" user: Go on.")


def test_scripted_tools_work_in_create_agent_on_the_graphs_own_store():
    store = InMemoryStore()
    _, agent = agent_of(list(SCRIPT), tools=memory_tools(), store=store)
    check(answers(agent.invoke({"messages": "Go on."}, ANN)))
    assert [n.content for n in Notebook(store).list(user_id="ann")] == ["Ann wants short answers."]


def test_scripted_tools_work_in_async_agents():
    _, agent = agent_of(list(SCRIPT), tools=memory_tools(notebook_on(InMemoryStore())))
    check(answers(asyncio.run(agent.ainvoke({"messages": "Go on."}, ANN))))


def graph_of(tools: list) -> Any:
    builder = StateGraph(MemoryMessagesState)
    builder.add_node("tools", ToolNode(tools))
    builder.add_edge(START, "tools")
    return builder.compile(checkpointer=InMemorySaver(), store=InMemoryStore())


def test_scripted_tools_work_in_a_bare_tool_node():
    graph = graph_of(memory_tools())
    for step in SCRIPT[:-1]:
        result = graph.invoke({"messages": [HumanMessage("Go on.", id="h"), step]}, ANN)
    check(answers(result))


@pytest.mark.filterwarnings("ignore:create_react_agent has been moved")
def test_scripted_tools_work_in_create_react_agent():
    model = StrictModel(family="mistral", script=list(SCRIPT))
    agent = create_react_agent(model, memory_tools(), store=InMemoryStore())
    check(answers(agent.invoke({"messages": "Go on."}, ANN)))


def test_for_chains_the_scope_is_bound():
    tools = bound()
    saved = tools["memory"].invoke({"action": "add", "content": "Use tabs.", "level": "session"})
    assert saved == "Saved mem_3daa6bb3 (session)."
    assert tools["memory"].invoke({"action": "list"}).endswith("Use tabs. [mem_3daa6bb3]")


def chain_tools(notebook, **options):
    tools = memory_tools(notebook, session_id="s1", user_id="ann", **options)
    return {tool.name: tool for tool in tools}


@pytest.mark.slow
@pytest.mark.parametrize("given", ["store", "notes of the same database"])
def test_all_tools_of_a_chain_work_on_the_store_of_its_session(given):
    with TranscriptStore("sqlite://") as store:
        store.add("s1", [HumanMessage("My order is 4711."), AIMessage("Noted.")], user_id="ann")
        if given == "store":
            tools = chain_tools(notebook_on(InMemoryStore()), store=store)
        else:
            tools = chain_tools(notebook_on(SqlStore(store)))
        assert "user: My order is 4711." in tools["history_search"].invoke({"pattern": r"\d{4}"})
        words = tools["history_search"].invoke({"pattern": "order 4711", "by": "words"})
        assert "user: My order is 4711." in words
        assert tools["pin_context"].invoke({"text": "Order 4711."}).startswith("Pinned pin_")
        assert tools["memorize"].invoke({"content": "a", "kind": "fact"}).startswith("Saved mem_")


@pytest.mark.parametrize("tool", ["pin_context", "history_search"])
def test_a_tool_of_a_chain_without_a_store_says_what_is_missing(tool):
    tools = chain_tools(notebook_on(InMemoryStore()))
    answer = tools[tool].invoke({"text": "x", "pattern": "x"})
    assert "memory_tools(..., store=...)" in answer


def test_memorize_keeps_preferences_for_the_user_and_all_else_for_the_project():
    tools = bound()
    levels = {
        kind: tools["memorize"].invoke({"content": kind, "kind": kind}).split("(")[1].split(")")[0]
        for kind in ("fact", "preference", "convention", "pattern")
    }
    assert levels.pop("preference") == "global"
    assert set(levels.values()) == {"project"}


def test_a_key_that_is_overwritten_and_a_full_level_are_said():
    tools = tools_of(notebook_on(InMemoryStore(), limit=1), user_id="ann", session_id="s1")
    add = tools["memory"]
    first = add.invoke({"action": "add", "content": "a", "key": "k"}).split()[1]
    assert f"takes the place of {first}" in add.invoke(
        {"action": "add", "content": "b", "key": "k"}
    )
    assert "the oldest went, mem_" in add.invoke({"action": "add", "content": "c"})
    assert add.invoke({"action": "add", "content": "c"}).startswith("Known already: mem_")


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("memory", {"action": "fly"}, "The arguments cannot be used: action: Input should be"),
        ("memory", {}, "The arguments cannot be used: action: Field required"),
        ("memory", {"action": "add"}, "content is missing"),
        ("memory", {"action": "get"}, "Name the note"),
        ("memory", {"action": "remove"}, "Name the note"),
        ("memory", {"action": "search"}, "query is missing"),
        ("memory", {"action": "add", "content": "x" * 10_001}, "at most 10,000"),
        ("memory", {"action": "list", "limit": "many"}, "limit: Input should be"),
        ("memory", {"action": "list", "level": "team"}, "level: Input should be"),
        ("memorize", {"content": " "}, "not blank"),
        ("memorize", {"content": "x", "kind": "rumour"}, "kind: Input should be"),
        ("pin_context", {}, "text is empty"),
        ("pin_context", {"text": "x"}, "has no store of this"),
        ("history_search", {"pattern": "("}, "has no store of this"),
        ("history_search", {"pattern": " "}, "pattern is empty"),
    ],
)
def test_bad_input_gets_a_sentence(tool, arguments, sentence):
    assert sentence in bound()[tool].invoke(arguments)


BREAKS = "one\ntwo\r\nthree\u2028four"


def test_an_answer_is_one_line_and_a_list_one_line_for_each_note():
    store = TranscriptStore("sqlite://")
    recall = Recall(store)
    store.add("s1", [HumanMessage(BREAKS), AIMessage("one\nmore")], user_id="ann")
    tools = bound(recall=recall)
    note = {"key": "k", "content": BREAKS, "tags": ["a\nb"]}
    for tool, arguments, lines in (
        ("memory", {"action": "add", **note}, 1),
        ("memory", {"action": "add", **note}, 1),
        ("memorize", {"content": f"{BREAKS} again"}, 1),
        ("memory", {"action": "get", "key": "k"}, 1),
        ("memory", {"action": "get", "key": "x\ny"}, 1),
        ("memory", {"action": "list"}, 2),
        ("memory", {"action": "search", "query": "three"}, 2),
        ("memory", {"action": "remove", "key": "k"}, 1),
        ("memory", {"action": "add", "content": "x", "key": "a\nb"}, 1),
        ("memory", {"action": "add", "content": "x", "level": "a\nb"}, 1),
        ("pin_context", {"text": BREAKS}, 1),
        ("pin_context", {"text": "other"}, 1),
        ("pin_context", {"action": "list"}, 2),
        ("pin_context", {"action": "unpin", "text": BREAKS}, 1),
        ("pin_context", {"action": "unpin", "text": BREAKS}, 1),
        ("history_search", {"pattern": "one"}, 2),
        ("history_search", {"pattern": "(\n"}, 1),
    ):
        answer = tools[tool].invoke(arguments)
        assert len(answer.splitlines()) == lines, (tool, arguments, answer)


def test_the_whole_note_is_got_with_its_line_breaks_named():
    tools = bound()
    tools["memory"].invoke({"action": "add", "key": "k", "content": f"{BREAKS}{'x' * 5_000}"})
    got = tools["memory"].invoke({"action": "get", "key": "k"})
    assert got.endswith(rf": one\ntwo\nthree\nfour{'x' * 5_000}")


def test_without_a_user_the_answer_says_so():
    tools = tools_of(notebook_on(InMemoryStore()), session_id="s1")
    assert "names no user" in tools["memorize"].invoke({"content": "x"})


def test_a_store_that_fails_is_an_answer():
    class Broken(InMemoryStore):
        def batch(self, ops):
            raise OSError("disk full")

    tools = tools_of(notebook_on(Broken()), user_id="ann")
    assert tools["memorize"].invoke({"content": "x"}) == (
        "That did not work: OSError. Check the arguments."
    )


HOSTILE = st.fixed_dictionaries(
    {
        "action": st.sampled_from(["add", "get", "search", "list", "remove"]),
        "key": st.sampled_from(
            [None, "secret", "../bob", "tokenmem.notes.bob", "=bob", "*", "bob/global", "\0", "%"]
        ),
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
        "runtime": st.just({"config": {"configurable": {"user_id": "bob", "thread_id": "b1"}}}),
        "config": st.just({"configurable": {"user_id": "bob"}}),
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
    for owner in ({"user_id": "ann", "session_id": "s1"}, {}):
        tool = tools_of(notebook_on(store), **owner)["memory"]
        answer = tool.invoke(
            {"name": "memory", "args": arguments, "id": "c1", "type": "tool_call"}, ANN
        )
        assert "secret of bob" not in answer.content
        assert "secret of the bank" not in answer.content
        assert bank not in answer.content
    after = {(i.namespace, i.key): i.value for i in store.search(("tokenmem",), limit=100)}
    assert {key: after.get(key) for key in before} == before
    assert all("=ann" in key[0] for key in after.keys() - before.keys())


def test_a_made_up_runtime_brings_no_other_scope():
    store = InMemoryStore()
    notebook_on(store).add("secret", level="global", user_id="bob")
    made_up = {"config": {"configurable": {"user_id": "bob"}}, "state": {}, "tool_call_id": "c"}
    tool = tools_of(notebook_on(store))["memory"]
    for owner in ({}, {"configurable": {"user_id": "ann"}}):
        given = {"action": "list", "runtime": made_up}
        assert "secret" not in str(tool.invoke(given, owner))


def history_tool(**options: Any) -> tuple[Any, TranscriptStore]:
    store = TranscriptStore("sqlite://")
    recall = Recall(store)
    said = [
        HumanMessage("The order is 4711."),
        AIMessage("Order 4711 is on its way."),
        HumanMessage("Thanks. " + "x" * 300 + " order 99"),
    ]
    store.add("s1", said, user_id="ann")
    store.add("b1", [HumanMessage("Bob has order 1234.")], user_id="bob")
    owner = {"user_id": "ann", "session_id": "s1", **options}
    return tools_of(notebook_on(InMemoryStore()), recall=recall, **owner)["history_search"], store


def test_the_history_is_searched_newest_first_with_numbers_and_times():
    tool, _ = history_tool()
    lines = tool.invoke({"pattern": r"order( is)? \d+"}).splitlines()
    assert len({line.split()[0] for line in lines}) == len(lines) == 3
    assert "order 99" in lines[0]
    assert "... xxx" in lines[0]
    assert lines[2].split()[1].startswith("20")
    assert lines[2].endswith("user: The order is 4711.")


def test_the_history_is_searched_by_words_too():
    tool, _ = history_tool()
    found = tool.invoke({"pattern": "on its way", "by": "words"})
    assert "assistant: Order 4711 is on its way." in found
    assert tool.invoke({"pattern": "monad transformer", "by": "words"}) == "No message matches."


def test_the_history_of_others_is_not_searched():
    tool, _ = history_tool()
    assert "Bob" not in tool.invoke({"pattern": "."})
    other, _ = history_tool(session_id="b1")
    assert "names no user or session" in other.invoke({"pattern": "Bob"})


@pytest.mark.slow
def test_a_pattern_that_is_none_or_runs_away_is_a_sentence(monkeypatch):
    monkeypatch.setattr(history_tool_module, "_SECONDS", 0.2)
    tool, _ = history_tool()
    assert "no regular expression" in tool.invoke({"pattern": "("})
    graph = graph_of(memory_tools(include={"history_search"}))
    text = HumanMessage("a" * 40_000 + "b", id="h")
    step = call(0, "history_search", pattern="(a+)+$")
    given = answers(graph.invoke({"messages": [text, step]}, ANN))[0]
    assert "took too long" in given or given == "No message matches."


def test_the_messages_of_a_graph_are_searched_without_a_store():
    graph = graph_of(memory_tools(include={"history_search"}))
    said = [HumanMessage("The price is 40.", id="h"), AIMessage("The price is 45.", id="a")]
    steps = [
        call(0, "history_search", pattern=r"price is \d+"),
        call(1, "history_search", pattern="which price", by="words"),
    ]
    for step in steps:
        result = graph.invoke({"messages": [*said, step]}, ANN)
    assert answers(result)[0].splitlines() == [
        "27c35e assistant: The price is 45.",
        "f4f2b6 user: The price is 40.",
    ]
    assert answers(result)[1].startswith("27c35e ")


def test_the_model_sees_no_injected_argument():
    for tool in memory_tools():
        shown = tool.tool_call_schema.model_json_schema()
        assert "runtime" not in shown["properties"]
        assert all("description" in field for field in shown["properties"].values())
        assert tool.description


def test_tools_are_chosen_by_name():
    assert {tool.name for tool in memory_tools()} == MEMORY_TOOLS
    assert [tool.name for tool in memory_tools(include={"memorize"})] == ["memorize"]
    with pytest.raises(ConfigurationError, match="include"):
        memory_tools(include={"fly"})
    with pytest.raises(ConfigurationError, match="notebook"):
        memory_tools(InMemoryStore())


def test_the_tokens_of_their_schemas_are_reported():
    memory = memory_of(8_000)
    bare = memory.view([HumanMessage("hi")]).usage.parts["tools"]
    with_tools = memory.view([HumanMessage("hi")], tools=memory_tools()).usage.parts["tools"]
    assert with_tools > bare == 0


def test_the_middleware_gives_the_tools_that_are_named():
    middleware = TokenMemoryMiddleware(memory_of(), agent_tools={"memory", "read_message"})
    assert {tool.name for tool in middleware.tools} == {"memory", "read_message"}
    every = TokenMemoryMiddleware(memory_of(), agent_tools=True)
    assert {tool.name for tool in every.tools} == {"compact_conversation", "read_message"}
    assert TokenMemoryMiddleware(memory_of()).tools == []
    with pytest.raises(ConfigurationError, match="agent_tools"):
        TokenMemoryMiddleware(memory_of(), agent_tools={"fly"})


def test_the_tools_of_the_middleware_store_nothing_that_before_store_takes_out():
    def redacted(messages):
        return [m.model_copy(update={"content": m.text.replace("4711", "[?]")}) for m in messages]

    store = InMemoryStore()
    tools = {"memory", "memorize", "pin_context"}
    middleware = TokenMemoryMiddleware(memory_of(before_store=redacted), agent_tools=tools)
    script = [
        call(0, "memorize", content="The card is 4711.", key="card 4711"),
        call(1, "memory", action="get", key="card 4711"),
        call(2, "pin_context", text="Card 4711."),
        call(3, "pin_context", action="unpin", text="Card 4711."),
        AIMessage("Done."),
    ]
    _, agent = agent_of(script, middleware, store=store)
    result = agent.invoke({"messages": "Remember my card."}, ANN)
    saved, got, pinned, unpinned = answers(result)
    assert saved.endswith('(project, key "card [?]").')
    assert got.endswith(": The card is [?].")
    assert pinned.endswith(": Card [?].")
    assert unpinned.startswith("Unpinned pin_")
    pins = agent.get_state(ANN).values["token_memory_pins"]
    assert "4711" not in str([pins, *store.search(("tokenmem",))])


def test_the_tools_of_the_middleware_keep_notes():
    notebook = notebook_on(InMemoryStore())
    middleware = TokenMemoryMiddleware(memory_of(notes=notebook), agent_tools={"memorize"})
    script = [call(0, "memorize", content="Use tabs.", kind="preference"), AIMessage("Done.")]
    _, agent = agent_of(script, middleware)
    result = agent.invoke({"messages": "Remember: tabs."}, ANN)
    assert isinstance(result["messages"][2], ToolMessage)
    assert [note.content for note in notebook.list(user_id="ann")] == ["Use tabs."]

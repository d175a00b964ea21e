"""Wrong use is told at once: by what was expected, what came, and the line to write."""

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage
from langchain_core.prompt_values import StringPromptValue
from langgraph.graph import StateGraph

from langchain_tokenmem import (
    MemoryMessagesState,
    MemoryNode,
    TokenBudget,
    TokenMemory,
    TokenMemoryChatHistory,
    TokenMemoryMiddleware,
    memory_input,
    memory_nodes,
    with_token_memory,
)
from langchain_tokenmem.errors import ConfigurationError, ScopeError
from langchain_tokenmem.events import MemoryCallbacks
from tests.adapters.integrations import session

BUDGET = TokenBudget(8_000)
MODEL = FakeListChatModel(responses=["hello"])
GRAPH = StateGraph(MemoryMessagesState).add_node("model", lambda state: state)


def losing(messages):
    return messages[1:]


def named(**names):
    return MemoryNode(TokenMemory(), **names)


HI = {"messages": [HumanMessage("hi")]}
WRONG = [
    # the wrong kind of object
    (lambda s: TokenMemory(recall=s), r"recall is a TranscriptStore.*\(recall=Recall\(store\)\)"),
    (lambda s: TokenMemory(notes=s), "notes"),
    (
        lambda s: with_token_memory(MODEL, s, TokenMemory()),
        r"memory is a TranscriptStore; pass a TokenMemory: with_token_memory\(",
    ),
    (
        lambda _: with_token_memory(MODEL, store="postgresql://u:ZZ@h/d"),
        r"store is a str; pass a TranscriptStore: with_token_memory\(",
    ),
    (
        lambda _: TokenMemoryMiddleware(BUDGET),
        r"memory is a TokenBudget; pass a TokenMemory: TokenMemoryMiddleware\(",
    ),
    (
        lambda _: memory_input(TokenMemory(), HI),
        r"memory is a dict; pass a TokenMemory: memory_input\(state, memory\)",
    ),
    (lambda _: TokenMemory(BUDGET).view(["hi"], system=5), "an int; pass"),
    (
        lambda _: TokenMemory(BUDGET).view(["hi"], tools=lambda: None),
        "tools is a function; pass a list",
    ),
    (
        lambda _: TokenMemory(BUDGET).view(TokenMemory(BUDGET).compact(["hi"]), ["hi"]),
        "messages contains a dict",
    ),
    (
        lambda _: TokenMemory(callbacks=MemoryCallbacks()),
        r"callbacks is not a list of MemoryCallbacks: callbacks=\[MyCallbacks\(\)\]",
    ),
    (
        lambda s: TokenMemoryChatHistory("s1", store=s).pin(HumanMessage("hi")),
        r"a HumanMessage cannot be pinned; a pin is a string or the number of a message",
    ),
    # a value that cannot work
    (lambda _: TokenMemory(models="glm-4"), "models is not a dict of limits"),
    (
        lambda _: TokenMemory(models={"glm-*": {"context_window": 8_000}}),
        r"models\['glm-\*'\] has no usable limits.*models=.*max_input_tokens",
    ),
    (
        lambda s: TokenMemoryChatHistory(
            "s1", memory=TokenMemory(before_store=losing), store=s
        ).add_user_message("hi"),
        r"before_store was given 1 messages and returned 0.*change a copy",
    ),
    (
        lambda s: with_token_memory(MODEL, store=s, overhead_tokens=-500),
        r"overhead_tokens is -500; it is a number of tokens, 0 or more",
    ),
    (lambda s: with_token_memory(MODEL, store=s, on_abort="maybe"), "on_abort"),
    (lambda s: with_token_memory(MODEL, store=s, limit_output=""), "limit_output"),
    # names and keys
    (lambda _: TokenMemoryMiddleware(name=""), "name is"),
    (lambda _: TokenMemoryMiddleware(name=5), "name is"),
    (lambda _: named(name=" "), r"name is ' '"),
    (
        lambda _: named(name="messages"),
        r"The state of a memory cannot be stored under 'messages'.*name=\"planner\"",
    ),
    (lambda _: named(output_messages_key="messages"), "must not take its place"),
    (
        lambda _: memory_input({**HI, "memory": "x"}, TokenMemory()),
        r"The graph's state holds a str under 'memory'.*name=\"planner\"",
    ),
    (
        lambda _: [memory_nodes(GRAPH, TokenMemory(BUDGET), before="model") for _ in "ab"],
        r"name=\"other\"",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("make", "words"), WRONG, ids=[words for _, words in WRONG])
def test_a_wrong_argument_is_refused_with_the_line_to_write(store, make, words):
    with pytest.raises(ConfigurationError, match=words) as caught:
        make(store)
    assert "ZZ" not in str(caught.value), "a password"
    assert store.sessions() == []


@pytest.mark.parametrize("budget", ["8000", True, [8_000], {"window": 8_000}, 8.5, TokenMemory()])
def test_a_token_budget_of_a_call_that_is_none_is_refused(store, budget):
    chain = with_token_memory(MODEL, store=store)
    with pytest.raises(ConfigurationError, match=r"token_budget.*TokenBudget\(context_window"):
        chain.invoke("hi", session(token_budget=budget))


TAKEN = [
    *("hi", HumanMessage("hi"), ["hi"], [("human", "hi")], ("human", "hi"), (HumanMessage("hi"),)),
    *([{"role": "user", "content": "hi"}], {"role": "user", "content": "hi"}),
    *(StringPromptValue(text="hi"), lambda: iter([HumanMessage("hi")])),
]


@pytest.mark.slow
@pytest.mark.parametrize("taken", TAKEN, ids=lambda taken: str(taken)[:20])
async def test_messages_are_taken_as_langchain_takes_them(store, taken):
    def given():
        return taken() if callable(taken) else taken

    def texts(messages):
        return [(message.type, message.content) for message in messages]

    expected = [("human", "hi")]
    memory = TokenMemory(BUDGET)
    assert texts(memory.view(given()).messages) == expected
    assert texts(memory.explain(given()).messages) == expected
    assert memory.compact(given()) == memory.compact([HumanMessage("hi")])
    assert await memory.acompact(given()) == memory.compact([HumanMessage("hi")])
    assert memory.count(given()).tokens == memory.count([HumanMessage("hi")]).tokens
    TokenMemoryChatHistory("s1", memory=memory, store=store).add_messages(given())
    store.add("s2", given())
    assert texts(store.messages("s1")[:1]) == texts(store.messages("s2")) == expected
    update = MemoryNode(memory).invoke({"messages": given()})
    assert texts(update["llm_input_messages"]) == expected
    assert texts(memory_input({"messages": given()}, memory)) == expected


@pytest.mark.parametrize("given", [None, 7, [7], [None], [("nobody", "hi")], {"text": "hi"}, b"hi"])
def test_what_is_no_message_is_told_at_every_entry(store, given):
    memory = TokenMemory(BUDGET)
    entries = [memory.view, memory.plan, memory.compact, memory.compact_and_view, memory.count]
    entries += [lambda messages: store.add("s1", messages), memory.explain]
    for entry in entries:
        with pytest.raises(ConfigurationError, match=r'messages .*\[HumanMessage\("hi"\)\]'):
            entry(given)
    assert store.count("s1") == 0


@pytest.mark.parametrize("wrong", [1, None, b"s1", ""])
def test_an_id_that_is_no_text_is_told_where_it_is_given(store, wrong):
    with pytest.raises(ScopeError, match="session_id is"):
        TokenMemoryChatHistory(wrong, store=store)
    with pytest.raises(ScopeError, match="session_id is"):
        store.add(wrong, [HumanMessage("hi")])
    chain = with_token_memory(MODEL, store=store)
    words = "name the session" if wrong is None else "session_id is .*name the session"
    with pytest.raises(ScopeError, match=words):
        chain.invoke("hi", {"configurable": {"session_id": wrong}})

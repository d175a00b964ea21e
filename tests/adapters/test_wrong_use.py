"""Wrong use is told at once: by what was expected, what came, and the line to write."""

from __future__ import annotations

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompt_values import StringPromptValue
from langgraph.graph import StateGraph

from langchain_tokenmem import (
    CompactNode,
    MemoryMessagesState,
    MemoryNode,
    Notebook,
    Recall,
    TokenBudget,
    TokenMemory,
    TokenMemoryChatHistory,
    TokenMemoryMiddleware,
    TokenMemorySaver,
    TranscriptStore,
    memory_input,
    memory_nodes,
    with_token_memory,
)
from langchain_tokenmem.core.argument_checks import as_messages
from langchain_tokenmem.errors import ConfigurationError, ScopeError
from langchain_tokenmem.events import CompactCallbacks
from langchain_tokenmem.types import Trigger

BUDGET = TokenBudget(8_000)
MODEL = FakeListChatModel(responses=["hello"])
SESSION = {"session_id": "s1"}


@pytest.fixture
def store():
    with TranscriptStore("sqlite://") as opened:
        yield opened


WRONG = {
    "a store as recall": (
        lambda store: TokenMemory(recall=store),
        r"recall is a TranscriptStore.*TokenMemory\(recall=Recall\(store\)\)",
    ),
    "the class of a recall": (
        lambda _: TokenMemory(recall=Recall),
        r"recall is the class Recall itself.*Recall\(store\)",
    ),
    "a memory as budget": (
        lambda _: TokenMemory(TokenMemory()),
        r"budget is a TokenMemory; a budget belongs there: budget=TokenBudget",
    ),
    "store and memory swapped": (
        lambda store: with_token_memory(MODEL, store, TokenMemory()),
        r"memory is a TranscriptStore; a TokenMemory belongs there: with_token_memory\(",
    ),
    "memory and runnable swapped": (
        lambda store: with_token_memory(TokenMemory(), MODEL, store),
        r"runnable is a TokenMemory; a Runnable belongs there: with_token_memory\(",
    ),
    "a budget as memory of a chain": (
        lambda store: with_token_memory(MODEL, BUDGET, store),
        r"memory is a TokenBudget; a TokenMemory belongs there",
    ),
    "a URL as store": (
        lambda _: with_token_memory(MODEL, store="postgresql://u:ZZ@h/d"),
        r"store is a str; a TranscriptStore belongs there: with_token_memory\(",
    ),
    "a budget as memory of a history": (
        lambda store: TokenMemoryChatHistory("s1", memory=BUDGET, store=store),
        r"memory is a TokenBudget; a TokenMemory belongs there: TokenMemoryChatHistory\(",
    ),
    "a memory as store of a history": (
        lambda _: TokenMemoryChatHistory("s1", store=TokenMemory()),
        r"store is a TokenMemory; a TranscriptStore belongs there: TokenMemoryChatHistory\(",
    ),
    "a budget as memory of a middleware": (
        lambda _: TokenMemoryMiddleware(BUDGET),
        r"memory is a TokenBudget; a TokenMemory belongs there: TokenMemoryMiddleware\(",
    ),
    "a budget as memory of a node": (
        lambda _: MemoryNode(BUDGET),
        r"memory is a TokenBudget; a TokenMemory belongs there: MemoryNode\(TokenMemory\(",
    ),
    "a path as archive": (
        lambda _: CompactNode(TokenMemory(), archive="memory.db", prune=True),
        r"archive is a str; a TranscriptStore belongs there: CompactNode\(",
    ),
    "a path as store of a saver": (
        lambda _: TokenMemorySaver("memory.db"),
        r"store is a str; a TranscriptStore belongs there: TokenMemorySaver\(",
    ),
    "a memory as store of a recall": (
        lambda _: Recall(TokenMemory()),
        r"store is a TokenMemory; a TranscriptStore belongs there: Recall\(",
    ),
    "a function as counter": (
        lambda _: TokenMemory(counter=len),
        r"counter is a builtin_function_or_method, which cannot stand there: TokenMemory\(counter=",
    ),
    "memory and builder swapped": (
        lambda _: memory_nodes(TokenMemory(), StateGraph(MemoryMessagesState)),
        r"builder is a TokenMemory; a StateGraph belongs there: memory_nodes\(builder, memory\)",
    ),
    "memory and state swapped": (
        lambda _: memory_input(TokenMemory(), {"messages": [HumanMessage("hi")]}),
        r"memory is a dict; a TokenMemory belongs there: memory_input\(state, memory\)",
    ),
}

FUNCTION = r"before_store is a Notebook; a function belongs there: "
LATER_OPTIONS = {
    "one callback for a list": (
        lambda _: TokenMemory(callbacks=CompactCallbacks()),
        r"callbacks is no list of CompactCallbacks: callbacks=\[MyCallbacks\(\)\]",
    ),
    "a function as callback": (
        lambda _: TokenMemory(callbacks=[print]),
        r"callbacks is no list of CompactCallbacks: callbacks=",
    ),
    "no function before storing": (
        lambda _: TokenMemory(before_store=Notebook()),
        FUNCTION + r"before_store=redact",
    ),
    "no function before storing in a saver": (
        lambda store: TokenMemorySaver(store, before_store=Notebook()),
        FUNCTION + r"before_store=redact",
    ),
    "no function before storing notes": (
        lambda _: Notebook(before_store=Notebook()),
        FUNCTION + r"before_store=redact",
    ),
    "a function before storing that returns nothing": (
        lambda store: TokenMemoryChatHistory(
            "s1", memory=TokenMemory(before_store=lambda messages: None), store=store
        ).add_user_message("hi"),
        r"before_store was given 1 messages and returned 0.*change a copy",
    ),
    "a type for a list of types": (
        lambda store: TokenMemorySaver(store, allowed_types=TokenBudget),
        r"allowed_types is the class TokenBudget itself; it is a list: allowed_types=\[MyType\]",
    ),
    "names of types": (
        lambda store: TokenMemorySaver(store, allowed_types=["TokenBudget"]),
        r"allowed_types holds a str; it is a list: allowed_types=\[MyType\]",
    ),
    "a name for a list of metadata": (
        lambda store: TokenMemorySaver(store, metadata_keys="run_name"),
        r'metadata_keys is a str; it is a list: metadata_keys=\["run_name"\]',
    ),
    "a list as legality": (lambda _: TokenMemory(legality=["openai"]), r"legality is \['openai'\]"),
    "a text as longest tail": (
        lambda _: TokenMemory(max_tail_messages="40"),
        r"max_tail_messages is '40'; the tail moves by",
    ),
    "a text as trigger": (lambda _: Trigger(tokens="40"), r"Trigger: tokens is '40'"),
    "a text as share of a trigger": (lambda _: Trigger(fraction="0.6"), r"fraction is '0.6'"),
    "no model for a budget": (
        lambda _: TokenBudget.for_model(None),
        r"model is of type NoneType; a chat model or its name belongs there: TokenBudget.for_model",
    ),
    "a class as model": (
        lambda _: TokenBudget.for_model(FakeListChatModel),
        r"a chat model or its name belongs there: TokenBudget.for_model",
    ),
    "a number as model of a node": (
        lambda _: MemoryNode(TokenMemory(), model=5),
        r"model is of type int; a chat model or its name belongs there: memory.for_model",
    ),
    "a window that is too small": (
        lambda _: TokenBudget.for_model("gpt-4o", context_window=100),
        r"context_window is 100; it needs to be a whole number of tokens, at least 256",
    ),
    "a text as window": (
        lambda _: TokenBudget.for_model("gpt-4o", context_window="8000"),
        r"context_window is '8000'; it needs to be a whole number",
    ),
    "fewer tokens than none": (
        lambda store: with_token_memory(MODEL, store=store, overhead_tokens=-500),
        r"overhead_tokens is -500; it is a number of tokens, 0 or more",
    ),
    "a text as tokens of a view": (
        lambda _: TokenMemory().view([HumanMessage("hi")], overhead_tokens="500"),
        r"overhead_tokens is '500'; it is a number of tokens",
    ),
    "a message as pin": (
        lambda store: TokenMemoryChatHistory("s1", store=store).pin(HumanMessage("hi")),
        r"a HumanMessage cannot be pinned; a pin is a text, or the number of a message",
    ),
    "the conversation's own key as name": (
        lambda _: MemoryNode(TokenMemory(), name="messages"),
        r"The state of a memory cannot stand under 'messages'.*name=\"planner\"",
    ),
    "a channel of the application": (
        lambda _: memory_input({"messages": [HumanMessage("hi")], "memory": "x"}, TokenMemory()),
        r"The graph's state holds a str under 'memory'.*name=\"planner\"",
    ),
}


@pytest.mark.parametrize("case", LATER_OPTIONS)
def test_a_wrong_argument_of_an_option_is_told_where_it_is_given(store, case):
    make, words = LATER_OPTIONS[case]
    with pytest.raises(ConfigurationError, match=words):
        make(store)


@pytest.mark.parametrize("case", WRONG)
def test_an_argument_of_another_type_is_told_with_the_line_to_write(store, case):
    make, words = WRONG[case]
    with pytest.raises(ConfigurationError, match=words) as caught:
        make(store)
    assert "ZZ" not in str(caught.value)


@pytest.mark.parametrize(
    "budget", [8_000, {"context_window": 8_000}, BUDGET], ids=["number", "dict", "budget"]
)
def test_a_token_budget_in_the_config_may_be_a_number_or_a_dict(store, budget):
    seen = []
    memory = TokenMemory(TokenBudget(16_000))
    chain = with_token_memory(MODEL, memory, store)
    original = memory.engine.__class__.prepare

    def spy(self, *args, **kwargs):
        seen.append(kwargs.get("budget"))
        return original(self, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory.engine.__class__, "prepare", spy)
        chain.invoke("hi", {"configurable": {**SESSION, "token_budget": budget}})
    assert seen
    assert set(seen) == {BUDGET}


@pytest.mark.parametrize("budget", [8_000, {"context_window": 8_000}])
def test_a_budget_of_a_view_may_be_a_number_or_a_dict(store, budget):
    view = TokenMemory().view([HumanMessage("hi")], budget=budget)
    assert view.usage.max_tokens == TokenMemory(BUDGET).view([HumanMessage("hi")]).usage.max_tokens
    history = TokenMemoryChatHistory("s1", store=store, budget=budget)
    history.add_user_message("hi")
    assert history.usage().max_tokens == view.usage.max_tokens


@pytest.mark.parametrize("budget", ["8000", True, [8_000], {"window": 8_000}, 8.5, TokenMemory()])
def test_a_token_budget_that_is_none_is_told_with_the_line_to_write(store, budget):
    chain = with_token_memory(MODEL, store=store)
    with pytest.raises(ConfigurationError, match=r"token_budget.*TokenBudget\(context_window"):
        chain.invoke("hi", {"configurable": {**SESSION, "token_budget": budget}})


TAKEN = {
    "a text": "hi",
    "a message": HumanMessage("hi"),
    "texts": ["hi"],
    "pairs": [("human", "hi")],
    "a pair": ("human", "hi"),
    "dicts": [{"role": "user", "content": "hi"}],
    "a dict": {"role": "user", "content": "hi"},
    "a tuple": (HumanMessage("hi"),),
    "a prompt": StringPromptValue(text="hi"),
    "an iterator": lambda: iter([HumanMessage("hi")]),
}


@pytest.mark.parametrize("case", TAKEN)
async def test_messages_are_taken_as_langchain_takes_them(store, case):
    def given():
        return TAKEN[case]() if case == "an iterator" else TAKEN[case]

    def texts(messages):
        return [(message.type, message.content) for message in messages]

    expected = [("human", "hi")]
    memory = TokenMemory(BUDGET)
    assert texts(memory.view(given()).messages) == expected
    assert texts(memory.explain(given()).view.messages) == expected
    assert memory.plan(given()) == memory.plan([HumanMessage("hi")])
    assert memory.compact(given()) == memory.compact([HumanMessage("hi")])
    assert await memory.acompact(given()) == memory.compact([HumanMessage("hi")])
    assert texts(memory.compact_and_view(given())[1].messages) == expected
    assert memory.count(given()).tokens == memory.count([HumanMessage("hi")]).tokens
    history = TokenMemoryChatHistory("s1", memory=memory, store=store)
    history.add_messages(given())
    await history.aadd_messages(given() if case == "a message" else [])
    store.add("s2", given())
    assert texts(store.messages("s1")[:1]) == texts(store.messages("s2")) == expected
    state = {"messages": given()}
    assert texts(MemoryNode(memory).invoke(state)["llm_input_messages"]) == expected
    assert texts(memory_input({"messages": given()}, memory)) == expected


@pytest.mark.parametrize("case", ["pairs", "a pair", "dicts", "texts", "a message", "a text"])
def test_a_chain_stores_its_input_as_messages_as_langchain_takes_them(store, case):
    with_token_memory(MODEL, store=store).invoke(TAKEN[case], {"configurable": SESSION})
    assert [message.content for message in store.messages("s1")] == ["hi", "hello"]


def test_other_data_than_messages_stays_json_in_a_chain(store):
    chain = with_token_memory(MODEL, store=store)
    chain.invoke([1, 2], {"configurable": SESSION})
    assert store.messages("s1")[0].content == "[1, 2]"


@pytest.mark.parametrize("given", [None, 7, [7], [None], [("nobody", "hi")], {"text": "hi"}, b"hi"])
def test_what_is_no_message_is_told_at_every_entry(store, given):
    memory = TokenMemory(BUDGET)
    entries = [memory.view, memory.plan, memory.compact, memory.compact_and_view, memory.count]
    entries += [lambda messages: store.add("s1", messages), memory.explain]
    for entry in entries:
        with pytest.raises(ConfigurationError, match=r'messages .*\[HumanMessage\("hi"\)\]'):
            entry(given)
    assert store.count("s1") == 0


def test_state_and_messages_swapped_are_told():
    memory = TokenMemory(BUDGET)
    state = memory.compact([HumanMessage("hi")])
    with pytest.raises(ConfigurationError, match="messages holds a dict"):
        memory.view(state, [HumanMessage("hi")])


@pytest.mark.parametrize("given", [[], [HumanMessage("a"), AIMessage("b")], (HumanMessage("a"),)])
def test_a_list_of_messages_is_not_copied(given):
    assert as_messages(given) is given


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


@pytest.mark.parametrize("user", [1, b"u", ""])
def test_a_user_id_that_is_no_text_is_told(store, user):
    with pytest.raises(ScopeError, match="user_id is"):
        store.add("s1", [HumanMessage("hi")], user_id=user)
    with pytest.raises(ScopeError, match="user_id is"):
        with_token_memory(MODEL, store=store).invoke(
            "hi", {"configurable": {**SESSION, "user_id": user}}
        )

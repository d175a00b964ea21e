"""`with_token_memory`: the whole request is budgeted, behind the prompt, wherever it stands."""

import json
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder, PromptTemplate
from langchain_core.runnables import (
    RunnableBranch,
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
)
from langchain_core.runnables.utils import ConfigurableFieldSpec
from pydantic import BaseModel

from langchain_tokenmem import (
    TokenBudget,
    TokenMemory,
    TokenMemoryChatHistory,
    TranscriptStore,
    with_token_memory,
)
from langchain_tokenmem.errors import BudgetExceededError, ConfigurationError, ScopeError
from langchain_tokenmem.types import RequestRules
from tests.adapters.integrations import session, texts, turns
from tests.fakes import CharCounter, ListSummarizer, memory_of, words_of
from tests.providers import problems
from tests.summarize.models import Scripted

PROMPT = ChatPromptTemplate(
    [("system", "You are {who}."), MessagesPlaceholder("history"), ("human", "Please: {input}")]
)
KEYS = {"input_messages_key": "input", "history_messages_key": "history"}
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


ANSWER = "an answer " * 10


def recorder(**fields: Any) -> Scripted:
    """Return a model that remembers its requests."""
    return Scripted(answer=ANSWER, **fields)


def check(model: Scripted, memory: Any, *, tools: Any = None, count: int | None = None) -> None:
    """Check that every request fits, and is legal."""
    assert len(model.requests) == count or count is None
    for request in model.requests:
        assert memory.count(request, tools=tools).tokens <= memory.budget.limit
        assert problems(request) == []


async def asked(chain: Any, questions: Any, *, is_async: bool = False, **more: str) -> None:
    for question in questions:
        said = {"input": question, **more}
        await chain.ainvoke(said, session()) if is_async else chain.invoke(said, session())


@pytest.mark.slow
async def test_invoke_stream_and_batch_give_the_same_requests():
    seen = []
    for run in ("invoke", "ainvoke", "stream", "astream", "batch"):
        with TranscriptStore("sqlite://") as store:
            model, memory = recorder(), memory_of(1_000, now=lambda: NOON)
            chain = with_token_memory(PROMPT | model, memory, store, **KEYS)
            for number in range(8):
                asked = {"input": f"question {number} " * 40, "who": "a clerk"}
                if run == "ainvoke":
                    await chain.ainvoke(asked, session())
                elif run == "batch":
                    chain.batch([asked], session())
                elif run == "astream":
                    assert len([c async for c in chain.astream(asked, session())]) >= 20
                elif run == "stream":
                    assert len(list(chain.stream(asked, session()))) >= 20
                else:
                    chain.invoke(asked, session())
            check(model, memory, count=8)
            assert {request[0].content for request in model.requests} == {"You are a clerk."}
            assert model.requests[-1][-1].content.startswith("Please: question 7 ")
            assert "<conversation_summary" in model.requests[-1][1].text
            assert texts(store.messages("s"))[:2] == ["question 0 " * 40, "an answer " * 10]
            assert {type(m) for m in store.messages("s")} == {HumanMessage, AIMessage}
            seen.append([words_of(m for m in r if m.type == "human") for r in model.requests])
    assert all(each == seen[0] for each in seen)


# Shapes of inputs and outputs


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [
        *("hi", HumanMessage("hi"), [HumanMessage("hi")], ("human", "hi"), [("human", "hi")]),
        *({"input": "hi"}, {"messages": [HumanMessage("hi")]}),
    ],
    ids=str,
)
def test_any_shape_of_input(store, asked):
    model = recorder()
    is_map = isinstance(asked, dict)
    inner = RunnableLambda(lambda d: next(iter(d.values()))) | model if is_map else model
    chain = with_token_memory(inner, memory_of(), store)
    for _ in range(2):
        chain.invoke(asked, session())
    assert model.requests[1][0].content == "hi"
    assert len(model.requests[1]) == 3
    assert texts(store.messages("s"))[::2] == ["hi", "hi"]


class City(BaseModel):
    """The answer of a model that is asked for tools."""

    name: str


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "stored"),
    [
        ("text", "text"),
        (AIMessage("said"), "said"),
        ({"output": "from a dict"}, "from a dict"),
        ([AIMessage("in a list")], "in a list"),
        ({"a": 1, "b": 2}, json.dumps({"a": 1, "b": 2})),
        ({"cities": ["Lund"]}, json.dumps({"cities": ["Lund"]})),
        ([City(name="Lund")], '[{"name": "Lund"}]'),
        ({"raw": AIMessage("{"), "parsed": {"x": 3}, "parsing_error": None}, '{"x": 3}'),
        ({"raw": AIMessage("no"), "parsed": None, "parsing_error": ValueError()}, "no"),
    ],
)
def test_any_shape_of_output(store, answer, stored):
    chain = with_token_memory(RunnableLambda(lambda _messages: answer), memory_of(), store)
    assert chain.invoke("hi", session()) == answer
    assert texts(store.messages("s")) == ["hi", stored]


@pytest.mark.parametrize("key", [None, "anwser"])
def test_an_output_that_holds_the_input_too_needs_the_key_of_the_answer(store, key):
    whole = RunnablePassthrough.assign(answer=PROMPT.partial(who="a clerk") | recorder())
    chain = with_token_memory(whole, memory_of(), store, output_messages_key=key, **KEYS)
    with pytest.raises(ConfigurationError, match="output_messages_key="):
        chain.invoke({"input": "hi"}, session())
    assert store.count("s") == 0


# Prompts, tools, models: wherever they stand


@pytest.mark.slow
@given(
    st.sampled_from([("input", "history"), ("input", None), (None, None), (None, "history")]),
    st.integers(600, 3_000),
    st.lists(st.integers(1, 400), min_size=1, max_size=12),
)
@settings(max_examples=settings.default.max_examples // 2)
def test_requests_fit_for_all_combinations_of_input_and_history_keys(keys, window, sizes):
    memory, model = memory_of(window), recorder()
    parts = [("system", "S."), MessagesPlaceholder(keys[1] or "input")]
    prompt = ChatPromptTemplate(parts + ([("human", "{input}")] if keys[1] else []))
    given_keys = dict(zip(KEYS, keys, strict=True))
    with TranscriptStore("sqlite://") as store:
        chain = with_token_memory(prompt | model, memory, store, **given_keys)
        for size in sizes:
            chain.invoke({"input": "word " * size}, session())
    check(model, memory, count=len(sizes))
    for request, size in zip(model.requests, sizes, strict=True):
        assert request[-1].content == "word " * size or "left out" in request[-1].content


RULES = ("system", "rule " * 300)
LONG = ChatPromptTemplate([RULES, MessagesPlaceholder("history"), ("human", "{input}")])
RENAMED = ChatPromptTemplate([RULES, MessagesPlaceholder("chat"), ("human", "{input}")])
SHAPES = {
    "parallel": lambda m: RunnableParallel(answer=LONG | m),
    "fallbacks": lambda m: (LONG | m).with_fallbacks([LONG | m]),
    "assign": lambda m: RunnablePassthrough.assign(output=LONG | m),
    "retry": lambda m: (LONG | m).with_retry(),
    "config": lambda m: (LONG | m).with_config(run_name="x"),
    "branch": lambda m: RunnableBranch((lambda _d: True, LONG | m), LONG | m),
    "renamed": lambda m: (
        {"input": itemgetter("input"), "chat": itemgetter("history")} | RENAMED | m
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
async def test_a_prompt_is_found_wherever_it_stands(store, shape):
    model, memory = recorder(), memory_of(1_200)
    chain = with_token_memory(SHAPES[shape](model), memory, store, **KEYS)
    store.add("s", turns(12))
    await asked(chain, [f"question {number} " * 20 for number in range(4)])
    check(model, memory, count=4)
    assert len(model.requests[-1]) > 2
    assert store.count("s") >= 32


def test_tools_bound_to_a_model_and_its_fallback_are_counted(store):
    tools = [{"name": f"tool{n}", "description": "does things " * 30} for n in range(5)]
    model, memory = recorder(), memory_of(1_500)
    bound = model.bind_tools(tools).with_fallbacks([model.bind_tools(tools)])
    store.add("s", turns(20))
    chain = with_token_memory(PROMPT | bound, memory, store, **KEYS)
    chain.invoke({"input": "And now?", "who": "x"}, session())
    check(model, memory, tools=tools)
    assert len(model.requests[0]) > 2


async def test_a_request_fits_the_smallest_model_of_a_branch(store):
    big, small = (recorder(profile={"max_input_tokens": n}) for n in (8_000, 1_500))
    branch = RunnableBranch((lambda prompt: "hard" in prompt.to_messages()[-1].content, big), small)
    memory = TokenMemory(counter=CharCounter(), summarizer=ListSummarizer())
    chain = with_token_memory(PROMPT | branch, memory, store, **KEYS)
    await asked(chain, ("hard " * 800, "easy " * 400, "easy " * 400), who="a clerk")
    assert (len(big.requests), len(small.requests)) == (1, 2)
    assert all(memory.count(request).tokens <= 1_500 for request in small.requests)


NEW = [MessagesPlaceholder("history"), ("human", "{input}")]
EXAMPLES = ChatPromptTemplate([("system", "S."), ("human", "1+1"), ("ai", "2"), *NEW])


@pytest.mark.slow
@pytest.mark.parametrize("most", [None, 6, 9])
async def test_examples_in_front_of_the_history_stay_there_and_count_for_max_messages(store, most):
    model = recorder()
    bounded: Any = {"request": RequestRules(max_messages=most), "trigger": None}
    memory = memory_of(1_000, **bounded if most else {})
    chain = with_token_memory(EXAMPLES | model, memory, store, **KEYS)
    await asked(chain, [f"{number} " * 20 for number in range(8)])
    check(model, memory)
    assert {tuple(texts(request[1:3])) for request in model.requests} == {("1+1", "2")}
    if most:
        assert most - 1 <= max(len(request) for request in model.requests) <= most


AS_TEXT = "History: {history}\nNow: {input}"
QUESTIONS = [f"Card 4711, question {number}? " + "why " * 40 for number in range(20)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prompt", "is_async"),
    [
        (ChatPromptTemplate([("human", AS_TEXT)]), False),
        (PromptTemplate.from_template(AS_TEXT), True),
    ],
)
async def test_a_history_that_a_prompt_writes_as_text_fits(store, prompt, *, is_async):
    model, memory = recorder(), memory_of()
    await asked(
        with_token_memory(prompt | model, memory, store, **KEYS), QUESTIONS, is_async=is_async
    )
    check(model, memory, count=20)
    assert model.requests[0][0].text == f"History: \nNow: {QUESTIONS[0]}"
    last = model.requests[-1][0].text
    assert f"\nHuman: {QUESTIONS[18]}\nAI: an answer" in last
    assert last.endswith(f"Now: {QUESTIONS[19]}")
    assert store.count("s") == 40


async def test_an_input_that_a_prompt_writes_as_text_has_its_history_in_front(store):
    model = recorder()
    prompt = ChatPromptTemplate([("human", "Answer.\n{input}")])
    await asked(
        with_token_memory(prompt | model, memory_of(), store, input_messages_key="input"), "ab"
    )
    assert model.requests[0][0].text == "Answer.\nHuman: a"
    assert model.requests[1][0].text == f"Answer.\nHuman: a\nAI: {ANSWER}\nHuman: b"


def as_masked(messages):
    return [
        HumanMessage(m.text.replace("4711", "****")) if m.type == "human" else m for m in messages
    ]


def as_pairs(messages):
    return [(message.type, message.text) for message in messages]


def as_fresh(messages):
    return [type(message)(message.text) for message in messages]


def as_lines(messages):
    return "\n".join(f"{message.type}: {message.text}" for message in messages)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "change", "prompt", "is_async"),
    [
        ("history", as_masked, PROMPT.partial(who="a clerk"), False),
        ("talk", as_fresh, ChatPromptTemplate([("human", "{talk}\nNow: {input}")]), False),
        ("history", as_pairs, PROMPT.partial(who="a clerk"), False),
        ("history", as_lines, ChatPromptTemplate([("human", AS_TEXT)]), True),
        ("talk", as_fresh, ChatPromptTemplate([MessagesPlaceholder("talk"), NEW[1]]), True),
    ],
)
async def test_whatever_a_step_makes_of_the_history_is_sent_and_fits(
    store, name, change, prompt, *, is_async
):
    model, memory = recorder(), memory_of(1_000)
    step = RunnablePassthrough.assign(**{name: itemgetter("history") | RunnableLambda(change)})
    await asked(
        with_token_memory(step | prompt | model, memory, store, **KEYS),
        QUESTIONS,
        is_async=is_async,
    )
    check(model, memory, count=20)
    assert "question 19?" in str(model.requests[-1])
    if change is as_masked:
        assert [sum("4711" in m.text for m in request) for request in model.requests] == [1] * 20
        assert "Card ****, question 18?" in str(model.requests[-1])
        assert "conversation_summary" in str(model.requests[-1])
        assert texts(store.messages("s"))[0].startswith("Card 4711")


async def test_a_placeholder_takes_the_newest_messages_only_and_keeps_the_pins(store):
    model, memory = recorder(), memory_of()
    newest = MessagesPlaceholder("history", n_messages=2)
    prompt = ChatPromptTemplate([("system", "Be brief."), newest, ("human", "{input}")])
    chain = with_token_memory(prompt | model, memory, store, **KEYS)
    await asked(chain, "abc")
    assert words_of(model.requests[-1]) == ["Be brief.", "b", ANSWER, "c"]
    TokenMemoryChatHistory("s", memory=memory, store=store).pin("Answer in French.")
    await asked(chain, "de")
    shown = [str(request).count("Answer in French.") for request in model.requests]
    assert shown == [0, 0, 0, 1, 1]


# Sessions, users and budgets


def test_sessions_users_and_budgets_come_by_configurable(store):
    model, memory = recorder(), memory_of()
    chain = with_token_memory(model, memory, store)
    with pytest.raises(ScopeError, match="session_id"):
        chain.invoke("hi")
    wrong = "no message under 'input'; its keys are 'a', 'b'.*input_messages_key"
    with pytest.raises(ConfigurationError, match=wrong):
        chain.invoke({"a": "x", "b": "y"}, session())
    chain.invoke("mine", session("s1", user_id="u1"))
    chain.invoke("yours", session("s2", user_id="u2"))
    assert store.sessions(user_id="u1") == ["s1"]
    with pytest.raises(ScopeError):
        chain.invoke("thief", session("s1", user_id="u2"))
    assert {spec.id for spec in chain.config_specs} >= {"session_id", "user_id"}


def fields(*names):
    return [ConfigurableFieldSpec(id=name, annotation=str) for name in names]


@pytest.mark.parametrize(
    ("names", "session_of", "given"),
    [
        (("chat",), None, {"chat": "s1"}),
        (("user_id", "chat"), None, {"chat": "s1", "user_id": "ann"}),
        (("who", "chat"), lambda who, chat: (chat, who), {"chat": "s1", "who": "ann"}),
        (("key",), lambda key: (key[5:], key[:3]), {"key": "ann--s1"}),
        (("team", "chat"), lambda team, chat: team + chat, {"team": "s", "chat": "1"}),
    ],
)
def test_an_application_names_sessions_by_its_own_fields(store, names, session_of, given):
    options = {"history_factory_config": fields(*names), "session_of": session_of}
    chain = with_token_memory(recorder(), memory_of(), store, **options)
    chain.invoke("hi", {"configurable": given})
    owner = "ann" if "ann" in str(given) else None
    assert store.sessions(user_id=owner) == ["s1"]
    assert {spec.id for spec in chain.config_specs} >= {*names}
    last = names[-1]
    with pytest.raises(ScopeError, match=rf'"{last}": "\.\.\."'):
        chain.invoke("hi", {"configurable": {**given, last: None}})


@pytest.mark.parametrize("names", [("team", "chat"), ("user_id",), ()])
def test_fields_that_name_no_one_session_need_session_of(store, names):
    with pytest.raises(ConfigurationError, match="session_of="):
        with_token_memory(recorder(), store=store, history_factory_config=fields(*names))


@pytest.mark.parametrize("budget", [300, {"context_window": 300}, TokenBudget(300)], ids=str)
def test_a_budget_of_the_call_may_be_a_number_a_dict_or_a_budget(store, budget):
    chain = with_token_memory(PROMPT | recorder(), memory_of(), store, **KEYS)
    given_ = {"input": "x", "who": "long " * 400}
    chain.invoke(given_, session())
    with pytest.raises(BudgetExceededError):
        chain.invoke(given_, session(token_budget=budget))

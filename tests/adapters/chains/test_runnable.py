"""The runnable door: the whole request is budgeted, behind the prompt."""

from __future__ import annotations

import json
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder, PromptTemplate
from langchain_core.runnables import (
    RunnableBranch,
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
)

from langchain_tokenmem import TokenBudget, TokenMemory, TranscriptStore, with_token_memory
from langchain_tokenmem.errors import BudgetExceededError, ConfigurationError, ScopeError
from tests.fakes import CharCounter, ListSummarizer, log_text, words_of
from tests.legality import problems


class Recorder(BaseChatModel):
    """Answers with a number and remembers every request."""

    requests: list
    words: int = 10

    @property
    def _llm_type(self) -> str:
        return "recorder"

    def bind_tools(self, tools, **kwargs):
        return self.bind(tools=tools, **kwargs)

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        self.requests.append(messages)
        said = AIMessage(f"answer {len(self.requests)} " * self.words)
        return ChatResult(generations=[ChatGeneration(message=said)])

    def _stream(self, messages, stop=None, run_manager=None, **kwargs):
        self.requests.append(messages)
        for word in ("one ", "two ", "three"):
            yield ChatGenerationChunk(message=AIMessageChunk(word))


PROMPT = ChatPromptTemplate(
    [("system", "You are {who}."), MessagesPlaceholder("history"), ("human", "Please: {input}")]
)


def memory_of(window: int = 2_000, **options: Any) -> TokenMemory:
    budget, counter = TokenBudget(context_window=window), CharCounter()
    return TokenMemory(budget, counter=counter, summarizer=ListSummarizer(), **options)


@pytest.fixture
def store():
    with TranscriptStore("sqlite://") as store:
        yield store


def config(session_id: str = "s1", **more) -> dict:
    return {"configurable": {"session_id": session_id, **more}}


def prompted(store, model=None, memory=None, prompt=PROMPT):
    return with_token_memory(
        prompt | (model or Recorder(requests=[])),
        memory or memory_of(),
        store,
        input_messages_key="input",
        history_messages_key="history",
    )


@pytest.mark.slow
def test_a_prompted_chain_fits_its_whole_request_for_200_turns(store):
    memory, model = memory_of(1_500), Recorder(requests=[])
    chain = prompted(store, model, memory)
    for number in range(200):
        chain.invoke({"input": f"question {number} " * 15, "who": "a clerk"}, config())
    assert len(model.requests) == 200
    for number, request in enumerate(model.requests):
        assert memory.count(request).tokens <= memory.budget.limit
        assert problems(request) == []
        assert request[0].content.startswith("You are a clerk.")
        assert request[-1].content.startswith(f"Please: question {number} ")
    assert store.count("s1") == 400
    assert store.messages("s1")[0].content.startswith("question 0")
    assert len(log_text(store.state("s1").state)) > 10


@pytest.mark.slow
async def test_sync_async_stream_and_batch_give_the_same_requests():
    seen = []
    for run in ("invoke", "ainvoke", "stream", "astream", "batch"):
        with TranscriptStore("sqlite://") as store:
            model = Recorder(requests=[])
            chain = prompted(store, model, memory_of(1_000))
            for number in range(12):
                given = {"input": f"question {number} " * 20, "who": "x"}
                if run == "invoke":
                    chain.invoke(given, config())
                elif run == "ainvoke":
                    await chain.ainvoke(given, config())
                elif run == "batch":
                    chain.batch([given], config())
                elif run == "stream":
                    assert [c.content for c in chain.stream(given, config())][:3] == [
                        "one ",
                        "two ",
                        "three",
                    ]
                else:
                    assert [c.content async for c in chain.astream(given, config())][:3] == [
                        "one ",
                        "two ",
                        "three",
                    ]
            assert store.count("s1") == 24
            stored = [m for m in store.messages("s1") if m.type == "ai"]
            assert {type(m) for m in stored} == {AIMessage}
            seen.append([words_of(m for m in r if m.type == "human") for r in model.requests])
    assert seen[0] == seen[1] == seen[4]
    assert seen[2] == seen[3]


@pytest.mark.slow
def test_tools_bound_to_the_model_are_counted(store):
    tools = [{"name": f"tool{n}", "description": "does things " * 30} for n in range(5)]
    model, memory = Recorder(requests=[]), memory_of(1_500)
    bound = model.bind_tools(tools)
    chain = prompted(store, bound, memory)
    for number in range(30):
        chain.invoke({"input": f"question {number} " * 15, "who": "x"}, config())
    for request in model.requests:
        assert memory.count(request, tools=tools).tokens <= memory.budget.limit


def test_a_giant_input_is_capped_and_readable_by_its_id(store):
    memory, model = memory_of(1_500), Recorder(requests=[])
    chain = with_token_memory(model, memory, store)
    giant = "start " + "stuff " * 20_000 + "end"
    chain.invoke(giant, config())
    sent = model.requests[0][-1]
    assert memory.count(model.requests[0]).tokens <= memory.budget.limit
    assert store.get("s1", sent.id).content == giant
    assert " characters left out ...]" in sent.content
    chain.invoke("and?", config())
    assert model.requests[1][0] == sent or "left out ...]" in str(model.requests[1][0].content)


@pytest.mark.parametrize(
    "given",
    [
        "hi",
        HumanMessage("hi"),
        [HumanMessage("hi")],
        {"input": "hi"},
        {"messages": [HumanMessage("hi")]},
    ],
)
def test_any_shape_of_input(store, given):
    model = Recorder(requests=[])
    bound = (
        model
        if not isinstance(given, dict)
        else RunnableLambda(lambda d: next(iter(d.values()))) | model
    )
    chain = with_token_memory(bound, memory_of(), store)
    chain.invoke(given, config())
    chain.invoke(given, config())
    assert model.requests[1][0].content == "hi"
    assert len(model.requests[1]) == 3
    assert store.count("s1") == 4


@pytest.mark.parametrize(
    ("answer", "stored"),
    [
        ("text", "text"),
        (AIMessage("said"), "said"),
        ({"output": "from a dict"}, "from a dict"),
        ([AIMessage("in a list")], "in a list"),
        ({"a": 1, "b": 2}, json.dumps({"a": 1, "b": 2})),
    ],
)
def test_any_shape_of_output(store, answer, stored):
    chain = with_token_memory(RunnableLambda(lambda _messages: answer), memory_of(), store)
    assert chain.invoke("hi", config()) == answer
    assert [m.content for m in store.messages("s1")] == ["hi", stored]


@pytest.mark.slow
def test_requests_fit_for_all_combinations_of_input_and_history_keys(store):
    @given(
        st.sampled_from([("input", "history"), ("input", None), (None, None), (None, "history")]),
        st.integers(600, 3_000),
        st.lists(st.integers(1, 400), min_size=1, max_size=12),
    )
    def fits(keys, window, sizes):
        memory, model = memory_of(window), Recorder(requests=[])
        prompt = ChatPromptTemplate(
            [("system", "S."), MessagesPlaceholder(keys[1] or "input")]
            + ([("human", "{input}")] if keys[1] else [])
        )
        with TranscriptStore("sqlite://") as own:
            chain = with_token_memory(
                prompt | model,
                memory,
                own,
                input_messages_key=keys[0],
                history_messages_key=keys[1],
            )
            for size in sizes:
                chain.invoke({"input": "word " * size}, config())
        for request, size in zip(model.requests, sizes, strict=True):
            assert memory.count(request).tokens <= memory.budget.limit
            assert problems(request) == []
            assert request[-1].content == "word " * size or "left out" in request[-1].content

    fits()


@pytest.mark.slow
def test_examples_in_front_of_the_history_stay_there(store):
    prompt = ChatPromptTemplate(
        [
            ("system", "S."),
            ("human", "1+1"),
            ("ai", "2"),
            MessagesPlaceholder("history"),
            ("human", "{input}"),
        ]
    )
    model, memory = Recorder(requests=[]), memory_of(1_000)
    chain = prompted(store, model, memory, prompt)
    for number in range(30):
        chain.invoke({"input": f"{number} " * 20}, config())
    for request in model.requests:
        assert [m.content for m in request[1:3]] == ["1+1", "2"]
        assert memory.count(request).tokens <= memory.budget.limit


def test_steps_in_front_of_the_prompt_see_the_history(store):
    model = Recorder(requests=[])
    chain = with_token_memory(
        RunnablePassthrough.assign(who=lambda d: f"after {len(d['history'])}") | PROMPT | model,
        memory_of(),
        store,
        input_messages_key="input",
        history_messages_key="history",
    )
    chain.invoke({"input": "a"}, config())
    chain.invoke({"input": "b"}, config())
    assert model.requests[1][0].content == "You are after 2."
    assert len(model.requests[1]) == 4


def test_a_prompt_that_writes_the_history_as_text(store):
    model = Recorder(requests=[])
    prompt = ChatPromptTemplate([("human", "History: {history}\nNow: {input}")])
    chain = prompted(store, model, memory_of(4_000), prompt)
    chain.invoke({"input": "a"}, config())
    chain.invoke({"input": "b"}, config())
    assert "answer 1" in model.requests[1][0].content


def test_a_turn_that_fails_is_not_stored(store):
    def boom(_messages):
        raise ValueError("no")

    chain = with_token_memory(RunnableLambda(boom), memory_of(), store)
    with pytest.raises(ValueError, match="no"):
        chain.invoke("hi", config())
    assert store.count("s1") == 0


def test_sessions_users_and_budgets_come_by_configurable(store):
    model, memory = Recorder(requests=[]), memory_of()
    chain = with_token_memory(model, memory, store)
    with pytest.raises(ScopeError, match="session_id"):
        chain.invoke("hi")
    with pytest.raises(ConfigurationError, match="input_messages_key"):
        chain.invoke({"a": "x", "b": "y"}, config())
    chain.invoke("mine", config("s1", user_id="u1"))
    chain.invoke("yours", config("s2", user_id="u2"))
    assert store.sessions(user_id="u1") == ["s1"]
    with pytest.raises(ScopeError):
        chain.invoke("thief", config("s1", user_id="u2"))
    with pytest.raises(BudgetExceededError):
        with_token_memory(PROMPT | model, memory, store, history_messages_key="history").invoke(
            {"input": "x", "who": "long " * 400},
            config("s3", token_budget=TokenBudget(context_window=300)),
        )
    assert {spec.id for spec in chain.config_specs} >= {"session_id", "user_id"}


@pytest.mark.slow
def test_nothing_of_the_memory_reaches_the_stream(store):
    chain = prompted(store, memory=memory_of(700))
    for number in range(15):
        chunks = list(chain.stream({"input": f"q{number} " * 30, "who": "x"}, config()))
        assert "".join(c.content for c in chunks) == "one two three"
    assert store.state("s1").state["summary"]


@pytest.mark.slow
async def test_nothing_of_the_memory_reaches_astream_events(store):
    chain = prompted(store, memory=memory_of(700))
    for number in range(25):
        said = [
            event["data"]["chunk"].content
            async for event in chain.astream_events(
                {"input": f"q{number} " * 30, "who": "x"}, config(), version="v2"
            )
            if event["event"] == "on_chat_model_stream"
        ]
        assert "".join(said) == "one two three"
    assert store.state("s1").state["summary"]


@pytest.mark.slow
@pytest.mark.parametrize("role", ["auto", "system"])
def test_a_summary_system_message_is_merged_with_the_prompts_own(store, role):
    model = Recorder(requests=[])
    chain = prompted(store, model, memory_of(700, summary_role=role))
    for number in range(15):
        chain.invoke({"input": f"q{number} " * 30, "who": "x"}, config())
    last = model.requests[-1]
    assert [m.type for m in last].count("system") == 1
    assert isinstance(last[0], SystemMessage)
    if role == "system":
        assert last[0].content.startswith("You are x.\n\n[Notes on earlier parts")
    else:
        assert last[0].content == "You are x."
    assert "<conversation_summary messages=" in last[0 if role == "system" else 1].text


def test_a_text_completion_chain(store):
    chain = with_token_memory(
        PromptTemplate.from_template("{history} {input}") | FakeListChatModel(responses=["ok"]),
        memory_of(),
        store,
        input_messages_key="input",
        history_messages_key="history",
    )
    assert chain.invoke({"input": "a"}, config()).content == "ok"
    assert store.count("s1") == 2


LONG = ChatPromptTemplate(
    [("system", "rule " * 900), MessagesPlaceholder("history"), ("human", "{input}")]
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "shape",
    [
        lambda m: RunnableParallel(answer=LONG | m),
        lambda m: (LONG | m).with_fallbacks([LONG | m]),
        lambda m: RunnablePassthrough.assign(output=LONG | m),
        lambda m: (LONG | m).with_retry(),
        lambda m: (LONG | m).with_config(run_name="x"),
        lambda m: RunnableBranch((lambda _d: True, LONG | m), LONG | m),
        lambda m: (
            {"input": itemgetter("input"), "chat": itemgetter("history")}
            | ChatPromptTemplate(
                [("system", "rule " * 900), MessagesPlaceholder("chat"), ("human", "{input}")]
            )
            | m
        ),
    ],
)
def test_a_prompt_is_found_wherever_it_stands(store, shape):
    model, memory = Recorder(requests=[]), memory_of(4_000)
    chain = with_token_memory(
        shape(model),
        memory,
        store,
        input_messages_key="input",
        history_messages_key="history",
        output_messages_key=None,
    )
    for number in range(40):
        chain.invoke({"input": f"question {number} " * 20}, config())
    assert len(model.requests) == 40
    for request in model.requests:
        assert memory.count(request).tokens <= memory.budget.limit
        assert problems(request) == []
    assert store.count("s1") >= 80


@pytest.mark.slow
def test_a_prompt_of_one_variable_takes_a_list(store):
    model, memory = Recorder(requests=[]), memory_of(4_000)
    prompt = ChatPromptTemplate([("system", "rule " * 900), MessagesPlaceholder("messages")])
    chain = with_token_memory(prompt | model, memory, store)
    for number in range(40):
        chain.invoke([HumanMessage(f"question {number} " * 20)], config())
    for request in model.requests:
        assert memory.count(request).tokens <= memory.budget.limit
        assert problems(request) == []
    assert [m.type for m in model.requests[1]] == ["system", "human", "ai", "human"]


@pytest.mark.slow
def test_tools_behind_fallbacks_are_counted(store):
    tools = [{"name": f"tool{n}", "description": "does things " * 30} for n in range(5)]
    model, memory = Recorder(requests=[]), memory_of(1_500)
    chain = prompted(
        store, model.bind_tools(tools).with_fallbacks([model.bind_tools(tools)]), memory
    )
    for number in range(30):
        chain.invoke({"input": f"question {number} " * 15, "who": "x"}, config())
    for request in model.requests:
        assert memory.count(request, tools=tools).tokens <= memory.budget.limit


@pytest.mark.slow
@pytest.mark.parametrize("most", [6, 7, 9])
def test_max_messages_counts_the_examples_of_a_prompt(most):
    prompt = ChatPromptTemplate(
        [
            ("system", "Be brief."),
            ("human", "2 + 2?"),
            ("ai", "4"),
            MessagesPlaceholder("history"),
            ("human", "{question}"),
        ]
    )
    model = Recorder(requests=[])
    memory = TokenMemory(TokenBudget(8_000), max_messages=most, trigger=None)
    with TranscriptStore("sqlite://") as store:
        chain = with_token_memory(
            prompt | model,
            memory,
            store,
            input_messages_key="question",
            history_messages_key="history",
        )
        for number in range(8):
            chain.invoke({"question": f"{number}?"}, {"configurable": {"session_id": "s"}})
        assert store.count("s") == 16
    sizes = [len(request) for request in model.requests]
    assert max(sizes) <= most
    assert max(sizes) >= most - 1
    assert [message.content for message in model.requests[-1][1:3]] == ["2 + 2?", "4"]

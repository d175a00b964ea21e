"""Request and answer fit the window together: the model's maximum of output tokens is set."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.chat_models import init_chat_model
from langchain_core.output_parsers import JsonOutputParser, StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import (
    ConfigurableField,
    RunnableBranch,
    RunnableLambda,
    RunnableParallel,
)
from langchain_core.tracers.run_collector import RunCollectorCallbackHandler

from langchain_tokenmem import TokenBudget, TokenMemory, TranscriptStore, with_token_memory
from langchain_tokenmem.errors import ConfigurationError
from tests.contract.chats import Talker, Way, long_turns
from tests.fakes import CharCounter, ListSummarizer
from tests.summarize.models import Scripted

PROMPT = ChatPromptTemplate(
    [("system", "Be brief."), MessagesPlaceholder("history"), ("human", "{input}")]
)
SESSION = {"configurable": {"session_id": "s"}}
KEYS = {"input_messages_key": "input", "history_messages_key": "history"}


class Small(Scripted):
    """A model whose answers are short by its own settings."""

    max_tokens: int = 77


class Gemini(Scripted):
    """A model of another provider."""

    @property
    def _llm_type(self) -> str:
        return "google"

    def _get_ls_params(self, stop: Any = None, **kwargs: Any) -> Any:
        return {"ls_provider": "google_genai", "ls_model_type": "chat"}


def answer(_messages) -> str:
    return "Yes."


def memory_of() -> TokenMemory:
    return TokenMemory(TokenBudget(2_000), counter=CharCounter(), summarizer=ListSummarizer())


@pytest.fixture
def store():
    with TranscriptStore("sqlite://") as store:
        yield store


def limited(chain, store, *, name: Any = True):
    return with_token_memory(chain, memory_of(), store, limit_output=name, **KEYS)


def left(model: Scripted, place: int = -1) -> int:
    """Return what a request leaves of the window, by this counter."""
    budget = memory_of().budget.for_counts(exact=True)
    used = memory_of().count(model.requests[place]).tokens
    return budget.limit + budget.reserve_output - used


def test_the_answer_has_what_the_request_leaves(store):
    model = Scripted(answer=answer)
    chain = limited(PROMPT | model | StrOutputParser(), store)
    for number in range(6):
        assert chain.invoke({"input": f"{number} " * 400}, SESSION) == "Yes."
        assert model.keywords[-1] == {"max_tokens": left(model)}
    assert len({kwargs["max_tokens"] for kwargs in model.keywords}) > 1
    assert min(kwargs["max_tokens"] for kwargs in model.keywords) >= 1


async def test_the_answer_has_what_the_request_leaves_async_and_in_streams(store):
    model = Scripted(answer=answer)
    chain = limited(PROMPT | model, store)
    await chain.ainvoke({"input": "One?"}, SESSION)
    assert [piece async for piece in chain.astream({"input": "Two?"}, SESSION)]
    assert [*chain.stream({"input": "Three?"}, SESSION)]
    assert [kwargs["max_tokens"] for kwargs in model.keywords] == [left(model, n) for n in range(3)]


def test_a_chain_without_a_prompt_is_limited_too(store):
    model = Scripted(answer=answer)
    with_token_memory(model, memory_of(), store, limit_output=True).invoke("Hi", SESSION)
    assert model.keywords == [{"max_tokens": left(model)}]


@pytest.mark.parametrize("name", [None, True])
def test_the_run_of_the_model_says_how_full_its_request_is(name, store):
    runs = RunCollectorCallbackHandler()
    chain = limited(PROMPT | Scripted(answer=answer), store, name=name)
    chain.invoke({"input": "hi"}, {**SESSION, "callbacks": [runs]})
    (root,), found = runs.traced_runs, []
    parts = [root]
    while parts:
        run = parts.pop()
        parts += run.child_runs
        found += [run.metadata["tokenmem.tokens"]] if run.run_type == "llm" else []
    assert len(found) == 1


def test_without_the_option_nothing_is_bound(store):
    model = Scripted(answer=answer)
    with_token_memory(PROMPT | model, memory_of(), store, **KEYS).invoke({"input": "Hi"}, SESSION)
    assert model.keywords == [{}]


def test_the_setting_is_that_of_the_provider_or_the_one_that_is_named(store):
    gemini, own = Gemini(answer=answer), Scripted(answer=answer)
    limited(PROMPT | gemini, store).invoke({"input": "Hi"}, SESSION)
    limited(PROMPT | own, store, name="max_completion_tokens").invoke({"input": "Hi"}, SESSION)
    assert list(gemini.keywords[0]) == ["max_output_tokens"]
    assert list(own.keywords[0]) == ["max_completion_tokens"]


def test_the_models_own_smaller_maximum_wins(store):
    made, bound = Small(answer=answer), Scripted(answer=answer)
    limited(PROMPT | made, store).invoke({"input": "Hi"}, SESSION)
    limited(PROMPT | bound.bind(max_tokens=55, stop=["x"]), store).invoke({"input": "Hi"}, SESSION)
    known = Scripted(answer=answer, profile={"max_output_tokens": 33})
    limited(PROMPT | known, store).invoke({"input": "Hi"}, SESSION)
    assert made.keywords == [{"max_tokens": 77}]
    assert bound.keywords[0]["max_tokens"] == 55
    assert known.keywords == [{"max_tokens": 33}]


def test_tools_stay_bound(store):
    model = Scripted(answer=answer)
    tool = {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}
    limited(PROMPT | model.bind_tools([tool]), store).invoke({"input": "Hi"}, SESSION)
    assert model.keywords[0]["tools"] == [tool]
    assert model.keywords[0]["max_tokens"] > 1_000


def test_a_fallback_is_limited_as_its_own_provider_asks(store):
    def fails(_messages):
        raise ValueError("down")

    first, second = Scripted(answer=fails), Gemini(answer=answer)
    chain = limited(PROMPT | first.with_fallbacks([second]) | StrOutputParser(), store)
    assert chain.invoke({"input": "Hi"}, SESSION) == "Yes."
    assert list(first.keywords[0]) == ["max_tokens"]
    assert list(second.keywords[0]) == ["max_output_tokens"]


def test_a_model_that_the_call_chooses_is_limited(store):
    one, other = Scripted(answer=answer), Gemini(answer=answer)
    chosen = one.configurable_alternatives(ConfigurableField(id="llm"), other=other)
    chain = limited(PROMPT | chosen, store)
    chain.invoke({"input": "Hi"}, SESSION)
    chain.invoke({"input": "Hi"}, {"configurable": {"session_id": "s", "llm": "other"}})
    assert list(one.keywords[0]) == ["max_tokens"]
    assert list(other.keywords[0]) == ["max_output_tokens"]


def test_a_configurable_parser_or_chain_is_no_model(store):
    model, other = Scripted(answer=answer), Scripted(answer=answer)
    field = ConfigurableField(id="parser")
    parser = StrOutputParser().configurable_alternatives(field, json=JsonOutputParser())
    chain = limited(PROMPT | model | parser, store)
    assert chain.invoke({"input": "Hi"}, SESSION) == "Yes."
    inner = RunnableLambda(lambda value: value) | other
    whole = inner.configurable_alternatives(ConfigurableField(id="chain"), same=inner)
    limited(PROMPT | whole, store).invoke({"input": "Hi"}, SESSION)
    assert list(model.keywords[0]) == list(other.keywords[0]) == ["max_tokens"]


def test_a_model_that_the_call_makes_is_limited(store, monkeypatch):
    made = Gemini(answer=answer)
    late = init_chat_model(configurable_fields=("model", "model_provider"))
    monkeypatch.setattr(type(late), "_model", lambda _self, _config=None: made)
    limited(PROMPT | late, store).invoke({"input": "Hi"}, SESSION)
    assert list(made.keywords[0]) == ["max_output_tokens"]


def test_only_the_model_nearest_to_the_end_is_limited(store):
    rewriter, model = Scripted(answer=answer), Scripted(answer=answer)
    chain = {"input": RunnableLambda(lambda v: v["input"]) | rewriter | StrOutputParser()}
    steps = RunnableParallel(**chain, history=lambda value: value["history"])
    limited(steps | PROMPT | model, store).invoke({"input": "Hi"}, SESSION)
    assert rewriter.keywords == [{}]
    assert list(model.keywords[0]) == ["max_tokens"]


def test_models_of_branches_are_limited(store):
    model = Scripted(answer=answer)
    branch = RunnableBranch((lambda _value: True, PROMPT | model), PROMPT | Scripted())
    limited(branch, store).invoke({"input": "Hi"}, SESSION)
    assert list(model.keywords[0]) == ["max_tokens"]


def test_a_chain_without_a_model_cannot_be_limited(store):
    with pytest.raises(ConfigurationError, match="limit_output"):
        limited(PROMPT | RunnableLambda(str), store)


def test_the_given_chain_is_left_as_it_is(store):
    model = Scripted(answer=answer)
    chain = PROMPT | model | StrOutputParser()
    limited(chain, store).invoke({"input": "Hi"}, SESSION)
    chain.invoke({"input": "Hi", "history": []})
    assert list(model.keywords[0]) == ["max_tokens"]
    assert model.keywords[1] == {}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["chain", "middleware"], indirect=True)
async def test_request_and_answer_together_fit_the_window(way: Way):
    model = Talker(name_="gpt-4o")
    memory = TokenMemory(2_000, background=False)
    chat = way.chat(memory, model=model, system="Be brief.", keywords={"limit_output": True})
    for question in long_turns(20):
        await chat.ask(question)
    for request, keywords in zip(chat.requests, model.keywords, strict=True):
        used = memory.count(request).tokens
        assert 200 <= keywords["max_tokens"] <= 2_000 - used

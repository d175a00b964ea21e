"""Request and answer fit the window together: the model's maximum of output tokens is set."""

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

from langchain_tokenmem import TokenMemory, TranscriptStore, with_token_memory
from langchain_tokenmem.errors import ConfigurationError
from tests.contract.chats import Talker, Way, ways
from tests.providers import StrictModel

WINDOW = 2_000
PROMPT = ChatPromptTemplate(
    [("system", "Be brief."), MessagesPlaceholder("history"), ("human", "{input}")]
)
SESSION: Any = {"configurable": {"session_id": "s"}}
KEYS: Any = {"input_messages_key": "input", "history_messages_key": "history"}


def gemini() -> Talker:
    """Return a model of a provider with another name for the setting."""
    return StrictModel(family="gemini", name_="gemini-2.5-pro")


def limited(chain: Any, store: TranscriptStore, *, name: Any = True) -> Any:
    return with_token_memory(chain, TokenMemory(WINDOW), store, limit_output=name, **KEYS)


def asked(chain: Any, *models: Talker, name: Any = True, **configurable: str) -> list[str]:
    """Ask a limited chain something, and return the newest keywords of each model by name."""
    config = {"configurable": {**SESSION["configurable"], **configurable}}
    with TranscriptStore("sqlite://") as store:
        limited(chain, store, name=name).invoke({"input": "Hi"}, config)
    return [" ".join(model.keywords[-1]) for model in models]


def left(model: Talker, place: int) -> int:
    """Return what a request leaves of the window."""
    memory = TokenMemory(WINDOW)
    budget = memory.budget.for_counts(exact=True)
    return budget.limit + budget.reserve_output - memory.count(model.requests[place]).tokens


async def test_the_answer_has_what_the_request_leaves_in_calls_and_streams(store: TranscriptStore):
    model = Talker(answer="Yes.", disable_streaming=True)
    chain = limited(PROMPT | model | StrOutputParser(), store)
    for number in range(3):
        assert chain.invoke({"input": f"{number} " * 400}, SESSION) == "Yes."
    await chain.ainvoke({"input": "One?"}, SESSION)
    assert [piece async for piece in chain.astream({"input": "Two?"}, SESSION)]
    assert [*chain.stream({"input": "Three?"}, SESSION)]
    with_token_memory(model, TokenMemory(WINDOW), store, limit_output=True).invoke("Hi", SESSION)
    places = range(7)
    assert model.keywords == [{"max_tokens": left(model, place)} for place in places]
    assert len({left(model, place) for place in places}) > 4


@pytest.mark.slow
@ways("chain", "middleware")
async def test_request_and_answer_together_fit_the_window(way: Way):
    memory = TokenMemory(WINDOW, background=False)
    chat = way.chat(memory, system="Be brief.", keywords={"limit_output": True})
    await chat.talk(20)
    for request, keywords in zip(chat.requests, chat.model.keywords, strict=True):
        assert 200 <= keywords["max_tokens"] <= WINDOW - memory.count(request).tokens


def test_the_setting_is_that_of_the_provider_or_the_one_that_is_named():
    other, own, unlimited = gemini(), Talker(), Talker()
    assert asked(PROMPT | other, other) == ["max_output_tokens"]
    assert asked(PROMPT | own, own, name="max_completion_tokens") == ["max_completion_tokens"]
    assert asked(PROMPT | unlimited, unlimited, name=None) == [""]


def test_the_models_own_smaller_maximum_wins_and_its_tools_stay_bound():
    class Small(Talker):
        max_tokens: int = 77

    made, bound, known = Small(), Talker(), Talker(profile={"max_output_tokens": 33})
    tool = {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}
    asked(PROMPT | made)
    asked(PROMPT | bound.bind(max_tokens=55, stop=["x"], tools=[tool]))
    asked(PROMPT | known)
    assert [one.keywords[0]["max_tokens"] for one in (made, bound, known)] == [77, 55, 33]
    assert bound.keywords[0]["tools"] == [tool]


def test_whatever_model_answers_is_limited_as_its_own_provider_asks(
    monkeypatch: pytest.MonkeyPatch,
):
    """A fallback, one that the call chooses, one that the call makes, one in a branch."""
    down, second = Talker(answer=ValueError("down")), gemini()
    chain = PROMPT | down.with_fallbacks([second]) | StrOutputParser()
    assert asked(chain, down, second) == ["max_tokens", "max_output_tokens"]

    one, other = Talker(), gemini()
    chosen = one.configurable_alternatives(ConfigurableField(id="llm"), other=other)
    assert asked(PROMPT | chosen, one) == ["max_tokens"]
    assert asked(PROMPT | chosen, other, llm="other") == ["max_output_tokens"]

    made, late = gemini(), init_chat_model(configurable_fields=("model", "model_provider"))
    monkeypatch.setattr(type(late), "_model", lambda _self, _config=None: made)
    assert asked(PROMPT | late, made) == ["max_output_tokens"]

    model = Talker()
    branch = RunnableBranch((lambda _value: True, PROMPT | model), PROMPT | Talker())
    assert asked(branch, model) == ["max_tokens"]


def test_only_the_model_nearest_to_the_end_is_limited():
    rewriter, model = Talker(), Talker()
    rewritten = RunnableLambda(lambda value: value["input"]) | rewriter | StrOutputParser()
    steps = RunnableParallel(input=rewritten, history=lambda value: value["history"])
    assert asked(steps | PROMPT | model, rewriter, model) == ["", "max_tokens"]


def test_a_configurable_parser_or_chain_is_no_model():
    model, other = Talker(), Talker()
    field = ConfigurableField(id="parser")
    parser = StrOutputParser().configurable_alternatives(field, json=JsonOutputParser())
    assert asked(PROMPT | model | parser, model) == ["max_tokens"]
    inner = RunnableLambda(lambda value: value) | other
    whole = inner.configurable_alternatives(ConfigurableField(id="chain"), same=inner)
    assert asked(PROMPT | whole, other) == ["max_tokens"]


def test_a_chain_without_a_model_cannot_be_limited():
    with pytest.raises(ConfigurationError, match="limit_output"):
        asked(PROMPT | RunnableLambda(str))


def test_the_given_chain_is_left_as_it_is():
    model = Talker()
    chain = PROMPT | model
    asked(chain)
    chain.invoke({"input": "Hi", "history": []})
    assert [list(keywords) for keywords in model.keywords] == [["max_tokens"], []]

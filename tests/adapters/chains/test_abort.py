"""Calls that fail: requests refused as too long, and streams that are stopped or break off."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableGenerator, RunnableLambda

from langchain_tokenmem import TokenMemory, with_token_memory
from langchain_tokenmem.core.messages import marks_of
from tests.adapters.integrations import session, texts
from tests.contract.chats import Heard, Talker
from tests.fakes import memory_of
from tests.providers import problems

CALL = {"name": "pay", "args": '{"sum": 4', "id": "c1", "index": 0, "type": "tool_call_chunk"}


class RefusedError(Exception):
    """The provider's."""


def failing(_given: object) -> Iterator[AIMessageChunk]:
    yield AIMessageChunk("Paris ", id="run-1")
    yield AIMessageChunk("is ", id="run-1", tool_call_chunks=[CALL])
    raise RefusedError


def talking(_given: object) -> Iterator[AIMessageChunk]:
    yield from (AIMessageChunk(text, id="run-1") for text in ("Paris ", "is ", "large."))


async def atalking(given: object) -> AsyncIterator[AIMessageChunk]:
    for chunk in talking(given):
        yield chunk
        await asyncio.sleep(0.01)


def chain_of(store, on_abort="keep", answer=failing):
    return with_token_memory(
        RunnableGenerator(answer, atalking), memory_of(), store, on_abort=on_abort
    )


def test_a_stream_that_fails(store):
    with pytest.raises(RefusedError):
        list(chain_of(store).stream("Tell me.", session()))
    question, answer = store.messages("s")
    assert (question.text, answer.text) == ("Tell me.", "Paris is \n\n[interrupted]")
    assert answer.tool_calls == answer.invalid_tool_calls == []
    assert marks_of(answer)["interrupted"] is True


@pytest.mark.parametrize("on_abort", ["keep", "drop"])
def test_a_stream_that_the_caller_closes(store, on_abort):
    stream = chain_of(store, on_abort, talking).stream("Tell me.", session())
    assert next(stream).text == "Paris "
    stream.close()
    said = ["Tell me.", "Paris \n\n[interrupted]"]
    assert texts(store.messages("s")) == (said if on_abort == "keep" else [])
    list(chain_of(store, on_abort, talking).stream("Again.", session()))
    assert texts(store.messages("s"))[-2:] == ["Again.", "Paris is large."]


@pytest.mark.parametrize("how", ["cancel", "close"])
async def test_an_async_stream_that_is_cancelled_or_closed(store, how):
    stream = chain_of(store).astream("Tell me.", session())
    await anext(stream)
    if how == "close":
        await stream.aclose()
    else:
        task = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    for _ in range(200):  # Python closes an inner async generator when the loop is free
        if store.count("s"):
            break
        await asyncio.sleep(0.01)
    question, answer = texts(store.messages("s"))
    assert question == "Tell me."
    assert answer.startswith("Paris ")
    assert answer.endswith("[interrupted]")


# Requests that are refused as too long


def strict(request: list[BaseMessage]) -> str:
    """Answer as a model with a smaller window than the memory's."""
    if count_tokens_approximately(request) > 3_000:
        raise ContextOverflowError("too long")
    return "Noted. " * 40


async def asked(chain, way: str, text: str) -> None:
    if way == "invoke":
        chain.invoke(text, session())
    elif way == "ainvoke":
        await chain.ainvoke(text, session())
    elif way == "stream":
        list(chain.stream(text, session()))
    else:
        [chunk async for chunk in chain.astream(text, session())]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "has_prompt"),
    [("invoke", True), ("ainvoke", False), ("stream", False), ("astream", True)],
)
async def test_a_refused_request_is_made_shorter_and_sent_again_once(store, way, *, has_prompt):
    model, heard = Talker(answer=strict), Heard()
    prompt = ChatPromptTemplate([("system", "Be brief."), MessagesPlaceholder("input")])
    memory = TokenMemory(8_000, callbacks=[heard])
    chain = with_token_memory(prompt | model if has_prompt else model, memory, store)
    for number in range(20):
        await asked(chain, way, f"{number}: " + "why " * 200)
    refused = len(model.requests) - 20
    assert 0 < refused == len(heard.of("overflow_retry")) < 5, "the log keeps what was folded"
    assert len(store.messages("s")) == 40
    assert [problems(request) for request in model.requests if problems(request)] == []


def test_a_second_refusal_or_one_of_another_component_is_raised_and_stores_nothing(store):
    model = Talker(answer=[ContextOverflowError("first"), ContextOverflowError("second"), "Yes."])
    mails = []

    def refused(_given: object) -> None:
        raise ContextOverflowError("of another model")

    chain = model | RunnableLambda(mails.append) | RunnableLambda(refused)
    for error in ("first", "of another model"):
        with pytest.raises(ContextOverflowError, match=error):
            with_token_memory(chain, TokenMemory(8_000), store).invoke("why " * 1_000, session())
    assert (len(model.requests), len(mails)) == (3, 1), "no step runs again"
    assert store.messages("s") == []


async def test_a_question_is_kept_if_no_smaller_request_can_be_made(store):
    tools = [{"type": "function", "function": {"name": "f", "description": "look " * 2_000}}]
    model = Talker(answer=ContextOverflowError("too long")).bind(tools=tools)
    chain = with_token_memory(model, TokenMemory(8_000), store, on_abort="keep")
    with pytest.raises(ContextOverflowError, match="too long"):
        await asked(chain, "astream", "Tell me.")
    assert texts(store.messages("s")) == ["Tell me.", "[interrupted]"]

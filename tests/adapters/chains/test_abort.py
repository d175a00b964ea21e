"""Calls that fail: requests refused as too long, and streams that are stopped or break off."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
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


def chain_of(store, on_abort, answer=failing):
    model = RunnableGenerator(answer, atalking)
    return with_token_memory(model, memory_of(), store, on_abort=on_abort)


def kept(store) -> list[BaseMessage]:
    return store.messages("s")


def test_a_stream_that_fails(store):
    with pytest.raises(RefusedError):
        list(chain_of(store, "keep").stream("Tell me.", session()))
    assert texts(kept(store)) == ["Tell me.", "Paris is \n\n[interrupted]"]
    assert kept(store)[1].tool_calls == kept(store)[1].invalid_tool_calls == []
    assert marks_of(kept(store)[1])["interrupted"] is True


@pytest.mark.parametrize("on_abort", ["keep", "drop"])
def test_a_stream_that_the_caller_closes(store, on_abort):
    stream = chain_of(store, on_abort, talking).stream("Tell me.", session())
    assert next(stream).text == "Paris "
    stream.close()
    said = ["Tell me.", "Paris \n\n[interrupted]"]
    assert texts(kept(store)) == (said if on_abort == "keep" else [])
    list(chain_of(store, on_abort, talking).stream("Again.", session()))
    assert texts(kept(store))[-2:] == ["Again.", "Paris is large."]


@pytest.mark.parametrize("how", ["cancel", "close"])
async def test_an_async_stream_that_is_cancelled_or_closed(store, how):
    stream = chain_of(store, "keep").astream("Tell me.", session())
    if how == "close":
        await anext(stream)
        await stream.aclose()
    else:
        has_begun = asyncio.Event()

        async def read() -> None:
            async for _ in stream:
                has_begun.set()

        task = asyncio.ensure_future(read())
        await has_begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    for _ in range(200):  # Python closes an inner async generator when the loop is free
        if kept(store):
            break
        await asyncio.sleep(0.01)
    question, answer = texts(kept(store))
    assert question == "Tell me."
    assert answer.startswith("Paris ")
    assert answer.endswith("[interrupted]")


# Requests that are refused as too long

LIMIT = 3_000


def strict() -> Talker:
    """Return a model with a smaller window than the memory's."""

    def answer(request: list[BaseMessage]) -> AIMessage:
        if count_tokens_approximately(request) > LIMIT:
            raise ContextOverflowError("too long")
        return AIMessage("Noted. " * 40)

    return Talker(answer=answer)


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
    model, heard = strict(), Heard()
    prompt = ChatPromptTemplate([("system", "Be brief."), MessagesPlaceholder("input")])
    memory = TokenMemory(8_000, callbacks=[heard])
    chain = with_token_memory(prompt | model if has_prompt else model, memory, store)
    for number in range(20):
        await asked(chain, way, f"{number}: " + "why " * 200)
    refused = len(model.requests) - 20
    assert 0 < refused == len(heard.of("overflow_retry")) < 5, "the log keeps what was folded"
    assert len(store.messages("s")) == 40
    assert [problems(request) for request in model.requests if problems(request)] == []


def test_a_second_refusal_raises_the_first_error_and_stores_nothing(store):
    errors = [ContextOverflowError("first"), ContextOverflowError("second")]

    def answer(_request: object) -> AIMessage:
        raise errors.pop(0)

    chain = with_token_memory(Talker(answer=answer), TokenMemory(8_000), store)
    with pytest.raises(ContextOverflowError, match="first"):
        chain.invoke("why " * 1_000, session())
    assert errors == kept(store) == []


def test_the_refusal_of_another_component_runs_no_step_again(store):
    model, mails = Talker(), []

    def refused(_given: object) -> None:
        raise ContextOverflowError("of another model")

    chain = with_token_memory(
        model | RunnableLambda(mails.append) | RunnableLambda(refused), TokenMemory(8_000), store
    )
    with pytest.raises(ContextOverflowError, match="of another model"):
        chain.invoke("why " * 1_000, session())
    assert len(mails) == len(model.requests) == 1


async def test_a_question_is_kept_if_no_smaller_request_can_be_made(store):
    tools = [{"type": "function", "function": {"name": "f", "description": "look " * 2_000}}]
    model = Talker(answer=ContextOverflowError("too long")).bind(tools=tools)
    chain = with_token_memory(model, TokenMemory(8_000), store, on_abort="keep")
    with pytest.raises(ContextOverflowError, match="too long"):
        await asked(chain, "astream", "Tell me.")
    assert texts(kept(store)) == ["Tell me.", "[interrupted]"]

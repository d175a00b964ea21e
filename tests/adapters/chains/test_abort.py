"""A stream that is stopped or fails: nothing of it is stored, or what was said so far."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.runnables import RunnableGenerator

from langchain_tokenmem import with_token_memory
from langchain_tokenmem.core.messages import marks_of
from langchain_tokenmem.errors import ConfigurationError
from tests.adapters.integrations import session, texts
from tests.fakes import memory_of

CALL = {"name": "pay", "args": '{"sum": 4', "id": "c1", "index": 0, "type": "tool_call_chunk"}


class RefusedError(Exception):
    """The provider's."""


def chunks() -> Iterator[AIMessageChunk]:
    yield AIMessageChunk("Paris ", id="run-1")
    yield AIMessageChunk("is ", id="run-1", tool_call_chunks=[CALL])
    raise RefusedError


async def achunks() -> AsyncIterator[AIMessageChunk]:
    for chunk in ("Paris ", "is ", "large."):
        yield AIMessageChunk(chunk, id="run-1")
        await asyncio.sleep(0.01)


def failing(_given: Iterator[object]) -> Iterator[AIMessageChunk]:
    yield from chunks()


async def afailing(_given: AsyncIterator[object]) -> AsyncIterator[AIMessageChunk]:
    async for chunk in achunks():
        yield chunk


def talking(_given: Iterator[object]) -> Iterator[AIMessageChunk]:
    yield from (AIMessageChunk(text, id="run-1") for text in ("Paris ", "is ", "large."))


def chain_of(store, on_abort, answer=failing):
    model = RunnableGenerator(answer, afailing)
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


def test_a_stream_that_said_nothing_keeps_the_question(store):
    def silent(_given: Iterator[object]) -> Iterator[AIMessageChunk]:
        raise RefusedError
        yield

    chain = with_token_memory(RunnableGenerator(silent), memory_of(), store, on_abort="keep")
    with pytest.raises(RefusedError):
        list(chain.stream("Tell me.", session()))
    assert texts(kept(store)) == ["Tell me.", "[interrupted]"]


def test_what_is_no_choice_is_refused(store):
    with pytest.raises(ConfigurationError, match="on_abort"):
        chain_of(store, "maybe")

"""What is stored is what was checked, whatever a node does with its state meanwhile."""

from __future__ import annotations

import enum
import threading
from dataclasses import dataclass
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import START, MessagesState, StateGraph

from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from langchain_tokenmem.storage.detached import detach

THREAD = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


@pytest.fixture
def store(tmp_path):
    with TranscriptStore(f"sqlite:///{tmp_path}/saver.db") as opened:
        yield opened


@pytest.fixture
def saver(store):
    return TokenMemorySaver(store)


@dataclass
class Unknown:
    """A type that is not allowed."""

    number: int = 1


def put(saver, values, metadata=None):
    checkpoint = {
        **empty_checkpoint(),
        "id": "00000001",
        "channel_values": values,
        "channel_versions": dict.fromkeys(values, 1),
    }
    return saver.put(THREAD, checkpoint, metadata or {}, dict.fromkeys(values, 1))


def during_a_wait(store, work, meanwhile):
    """Do some work that waits for the writer, and something else while it waits."""
    failed: list[BaseException] = []

    def worked():
        try:
            work()
        except BaseException as error:  # noqa: BLE001  # shown by the test
            failed.append(error)

    worker = threading.Thread(target=worked)
    with store.database.writing("test"):
        worker.start()
        worker.join(0.3)
        assert worker.is_alive()
        meanwhile()
    worker.join(30)
    assert failed == []


@pytest.mark.slow
def test_a_value_that_is_changed_while_its_checkpoint_waits(store, saver):
    box = {"v": [1]}

    def meanwhile():
        box["v"].append(Unknown())

    during_a_wait(store, lambda: put(saver, {"box": box}), meanwhile)
    assert saver.get_tuple(THREAD).checkpoint["channel_values"] == {"box": {"v": [1]}}


@pytest.mark.slow
@pytest.mark.parametrize(
    "around",
    [
        lambda inner: {"v": inner},
        lambda inner: [inner, 2],
        lambda inner: [HumanMessage("hi", id="h"), {"v": inner}],
        lambda inner: {"v": inner, "set": {1, 2}},
    ],
)
def test_a_pending_write_that_is_changed_while_it_waits(store, saver, around):
    config, inner = put(saver, {"n": 1}), [1]
    value = around(inner)

    def meanwhile():
        inner.append(Unknown())

    during_a_wait(store, lambda: saver.put_writes(config, [("box", value)], "task"), meanwhile)
    [(_, _, written)] = saver.get_tuple(THREAD).pending_writes
    assert written == around([1])


@pytest.mark.slow
def test_a_dict_that_grows_while_it_is_looked_at():
    grown: dict[str, Any] = {str(n): {"n": n} for n in range(3)}
    stop = threading.Event()

    def grow():
        number = 0
        while not stop.is_set():
            number += 1
            grown[f"more {number}"] = [number]
            if number > 2_000:
                for name in [*grown][3:]:
                    del grown[name]
                number = 0

    worker = threading.Thread(target=grow)
    worker.start()
    try:
        for _ in range(300):
            shape, _ = detach({"box": grown})
            assert shape["box"].keys() >= {"0", "1", "2"}
    finally:
        stop.set()
        worker.join()


class Priority(enum.IntEnum):
    HIGH = 3


def test_metadata_can_be_read_again(store, saver):
    graph = StateGraph(MessagesState).add_node("model", lambda state: {}).add_edge(START, "model")
    chat = graph.compile(checkpointer=saver)
    config = {"configurable": {"thread_id": "t"}, "metadata": {"priority": Priority.HIGH}}
    chat.invoke({"messages": [("human", "hi")]}, config)
    assert chat.get_state(config).metadata["priority"] == 3


class RefusedError(Exception):
    """Cannot be made again from its arguments, such as an error of an HTTP client."""

    def __init__(self, message, *, code):
        super().__init__(message)


def test_a_message_that_cannot_be_copied(store, saver):
    error = RefusedError("bad", code=3)
    put(saver, {"messages": [ToolMessage("x", tool_call_id="c", id="b", artifact=error)]})
    [found] = saver.get_tuple(THREAD).checkpoint["channel_values"]["messages"]
    assert found.content == "x"
    assert found.artifact == repr(error)


def odd(field, value):
    chunk = AIMessageChunk("x", id="c")
    setattr(chunk, field, value)
    return chunk


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@pytest.mark.parametrize(
    "message",
    [
        odd("content", None),
        odd("usage_metadata", {"total": 1}),
        odd("tool_calls", [{"name": "f"}]),
        AIMessage("x", id="c", response_metadata={"tokenmem": {"created_at": 5}}),
    ],
)
def test_a_message_that_no_transcript_takes_is_stored_beside_it(store, saver, message):
    put(saver, {"messages": [message]})
    [found] = saver.get_tuple(THREAD).checkpoint["channel_values"]["messages"]
    assert type(found) is type(message)
    assert store.messages("t") == []


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_a_message_without_metadata(store, saver):
    message = AIMessage("x", id="c")
    message.response_metadata = None
    put(saver, {"messages": [message]})
    [found] = saver.get_tuple(THREAD).checkpoint["channel_values"]["messages"]
    assert (found.content, found.response_metadata) == ("x", None)

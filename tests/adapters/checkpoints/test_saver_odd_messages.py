"""Messages changed in place into what no model would check are taken as InMemorySaver does."""

from __future__ import annotations

import threading
from uuid import UUID

import pytest
from langchain_core.messages import AIMessage, ChatMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import empty_checkpoint

from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from langchain_tokenmem.errors import ConfigurationError

# LangGraph's serializer warns of them; they are stored all the same.
pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")

PLACE = {"thread_id": "t1", "checkpoint_ns": ""}
THREAD = {"configurable": PLACE}
CALL = {"name": "search", "args": {}, "id": "c1", "type": "tool_call"}


def put(saver, messages, number=1):
    checkpoint = {
        **empty_checkpoint(),
        "id": f"{number:08}",
        "channel_values": {"messages": messages},
        "channel_versions": {"messages": number},
    }
    saver.put(THREAD, checkpoint, {}, {"messages": number})


def read(saver):
    return saver.get_tuple(THREAD).checkpoint["channel_values"]["messages"]


def changed(message, field, value):
    setattr(message, field, value)
    return message


ODD = {
    "arguments": lambda: changed(
        AIMessage("Wait.", id="m2", tool_calls=[CALL]), "tool_calls", [{**CALL, "args": "{"}]
    ),
    "no call": lambda: changed(ToolMessage("42", tool_call_id="c1", id="m2"), "tool_call_id", None),
    "blocks": lambda: changed(AIMessage("Wait.", id="m2"), "content", [1]),
    "content": lambda: changed(AIMessage("Wait.", id="m2"), "content", None),
    "kwargs": lambda: changed(AIMessage("Wait.", id="m2"), "additional_kwargs", None),
    "name": lambda: changed(HumanMessage("Wait.", id="m2"), "name", 5),
    "role": lambda: changed(ChatMessage(content="Wait.", role="ann", id="m2"), "role", None),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ODD)
def test_a_message_that_cannot_be_checked_makes_no_transcript_unreadable(tmp_path, kind):
    url = f"sqlite:///{tmp_path}/memory.db"
    said = [HumanMessage("Hello", id="m1"), ODD[kind](), HumanMessage("Still there?", id="m3")]
    put(TokenMemorySaver(TranscriptStore(url)), said)
    # Another process knows no object, and has to find everything in the store.
    saver = TokenMemorySaver(TranscriptStore(url))
    assert [message.__dict__ for message in read(saver)] == [one.__dict__ for one in said]
    put(saver, [*read(saver), AIMessage("Yes.", id="m4")], 2)
    assert [message.id for message in read(saver)] == ["m1", "m2", "m3", "m4"]
    assert [one.id for one in saver.store.messages("t1")] == ["m1", "m3", "m4"]


@pytest.mark.parametrize("kind", ODD)
def test_a_transcript_refuses_what_it_could_not_read(kind):
    store = TranscriptStore("sqlite://")
    with pytest.raises(ConfigurationError, match="m2 cannot be stored"):
        store.add("s1", [HumanMessage("Hello", id="m1"), ODD[kind]()])
    store.add("s1", [HumanMessage("Hello", id="m1")])
    assert [one.id for one in store.messages("s1")] == ["m1"]


@pytest.mark.parametrize("name", [5, UUID(int=7)])
def test_an_id_that_is_no_text(name):
    saver = TokenMemorySaver(TranscriptStore("sqlite://"))
    said = [changed(HumanMessage("Hello"), "id", name), AIMessage("Hello.", id="m2")]
    put(saver, said)
    put(saver, [*said, HumanMessage("How are you?", id="m3")], 2)
    assert [str(one.id) for one in read(saver)] == [str(name), "m2", "m3"]
    assert [one.id for one in saver.store.messages("t1")] == [str(name), "m2", "m3"]


def nested(levels):
    value = {}
    for _ in range(levels):
        value = {"deeper": value}
    return value


def in_itself():
    value = {}
    value["self"] = value
    return value


KINDS = ["lock", "deep", "circle"]


@pytest.mark.parametrize("what", [threading.Lock(), nested(5_000), in_itself()], ids=KINDS)
@pytest.mark.parametrize("channel", ["messages", "artifact"])
def test_what_cannot_be_written_is_said_in_our_words(what, channel):
    saver = TokenMemorySaver(TranscriptStore("sqlite://"))
    message = ToolMessage("42", tool_call_id="c1", id="m1", artifact=what)
    value = [changed(message, "artifact", what)] if channel == "messages" else what
    with pytest.raises(ConfigurationError, match="cannot be stored"):
        put(saver, value)
    with pytest.raises(ConfigurationError, match="cannot be stored"):
        saver.put_writes({"configurable": {**PLACE, "checkpoint_id": "1"}}, [("x", value)], "task")
    put(saver, [HumanMessage("Hello", id="m1")])
    assert [one.content for one in read(saver)] == ["Hello"]

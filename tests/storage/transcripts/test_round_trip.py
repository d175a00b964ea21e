"""Round trips: every message comes back equal, and no stored body becomes another object."""

from __future__ import annotations

import json
import logging
import math
import sqlite3
import sys
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    HumanMessageChunk,
    SystemMessage,
    ToolMessage,
    ToolMessageChunk,
)
from pydantic import BaseModel

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.errors import ConfigurationError, CorruptStoreError
from langchain_tokenmem.storage.message_json import checksum, decoded_message
from tests.storage.samples import texts
from tests.strategies import conversations

USAGE = {
    "input_tokens": 5,
    "output_tokens": 7,
    "total_tokens": 12,
    "input_token_details": {"cache_read": 3},
    "output_token_details": {"reasoning": 2},
}
CALL = {"name": "look", "args": {"q": ["数", None, 1.5]}, "id": "c1", "type": "tool_call"}
BROKEN = {
    "name": "look",
    "args": '{"q": ',
    "id": "c2",
    "error": "no JSON",
    "type": "invalid_tool_call",
}
EVERY_TYPE = [
    SystemMessage("Be brief.", id="1", additional_kwargs={"cache_control": {"type": "ephemeral"}}),
    HumanMessage([{"type": "text", "text": "hi"}, "and"], id="2", name="ann"),
    HumanMessage([{"type": "image", "base64": "AAAA", "mime_type": "image/png"}], id="3"),
    AIMessage(
        [
            {"type": "thinking", "thinking": "hm", "signature": "abc"},
            {"type": "redacted_thinking", "data": "xyz"},
            {"type": "text", "text": "ok", "citations": [{"cited_text": "x", "start": 0}]},
            {"type": "tool_use", "id": "c1", "name": "look", "input": {"q": 1}},
        ],
        id="4",
        tool_calls=[CALL],
        invalid_tool_calls=[BROKEN],
        usage_metadata=USAGE,
        response_metadata={"model_name": "m", "logprobs": {"content": [-1.5, 1e-300]}},
        additional_kwargs={"reasoning_content": "…", "refusal": None},
        name="bot",
    ),
    AIMessage(
        content_blocks=[
            {"type": "reasoning", "reasoning": "so", "extras": {"signature": "s"}},
            {"type": "text", "text": "v1"},
            {"type": "tool_call", "id": "c3", "name": "look", "args": {}},
        ],
        id="5",
        response_metadata={"output_version": "v1"},
    ),
    ToolMessage(
        "no",
        id="6",
        tool_call_id="c1",
        status="error",
        artifact={"rows": [1, 2, {"a": None}]},
        name="look",
    ),
    ToolMessage([{"type": "text", "text": "x"}], id="7", tool_call_id="c3", artifact=[True, 2]),
    FunctionMessage("1", id="8", name="old"),
    ChatMessage("hello", id="9", role="developer"),
    HumanMessage("", id="10", response_metadata={"tokenmem": {"pinned": True}}),
    AIMessage("extra", id="11", example=True, custom_field={"kept": 1}),
]
CHUNKS = [
    AIMessageChunk(
        "hel",
        id="12",
        tool_call_chunks=[{"name": "f", "args": '{"a": 1}', "id": "c", "index": 0}],
        usage_metadata=USAGE,
        chunk_position="last",
    ),
    HumanMessageChunk("x", id="13"),
    ToolMessageChunk("y", id="14", tool_call_id="c", artifact={"z": 1}),
]


def test_every_message_type_comes_back_equal_from_the_transcript(path):
    with TranscriptStore(f"sqlite:///{path}") as store:
        store.add("s", EVERY_TYPE)
    with TranscriptStore(f"sqlite:///{path}") as store:
        found = store.messages("s")
        one = store.get("s", "4")
    assert found == EVERY_TYPE
    assert one == EVERY_TYPE[3]
    for mine, theirs in zip(found, EVERY_TYPE, strict=True):
        assert type(mine) is type(theirs)
        assert mine.model_dump() == theirs.model_dump()


def test_message_chunks_are_stored_as_whole_messages(store):
    store.add("s", CHUNKS)
    ai, human, tool = store.messages("s")
    assert [type(m) for m in (ai, human, tool)] == [AIMessage, HumanMessage, ToolMessage]
    assert ai.content == "hel"
    assert [(c["name"], c["args"]) for c in ai.tool_calls] == [("f", {"a": 1})]
    assert ai.usage_metadata == USAGE
    assert tool.artifact == {"z": 1}


@pytest.mark.slow
@given(conversations(max_size=10))
def test_any_conversation_comes_back_equal(said):
    with TranscriptStore("sqlite://") as store:
        added = store.add("s", said)
        found = store.messages("s")
    assert [message.id for message in found] == added
    seen = set()
    unique = [m for m in said if m.id is None or not (m.id in seen or seen.add(m.id))]
    # Of one id the last words count.
    last = {m.id: m for m in said if m.id}
    for mine, first in zip(found, unique, strict=True):
        theirs = last[first.id] if first.id else first
        assert mine == theirs.model_copy(update={"id": mine.id})


@pytest.mark.parametrize(
    "text",
    [
        "a\x00b",
        "\ud800",
        "\udfff\ud800 \ude00\ud83d",
        "😀",
        "\\ud800 \\x00",
        "\r\n\t",
        "x" * 100_000,
    ],
)
def test_any_text_comes_back_equal(store, text):
    message = HumanMessage(text, id="m", additional_kwargs={text[:9]: [text]}, name=text)
    store.add("s", [message])
    assert store.messages("s") == [message]
    assert store.get("s", "m") == message


def test_two_surrogates_of_one_character_come_back_as_the_character(store):
    store.add("s", [HumanMessage("\ud83d\ude00")])
    assert texts(store.messages("s")) == ["😀"]


def test_numbers_of_any_size_come_back_equal(store):
    numbers = [2**64, -(2**70), 10**400, 0.1, 1e308, -0.0, math.inf, 2**53 + 1, True, None]
    store.add("s", [ToolMessage("", tool_call_id="c", id="n", artifact=numbers)])
    found = store.messages("s")[0].artifact
    assert found == numbers
    assert [type(one) for one in found] == [type(one) for one in numbers]
    store.add("s", [ToolMessage("", tool_call_id="c", id="m", artifact=[math.nan])])
    assert math.isnan(store.get("s", "m").artifact[0])


class Model(BaseModel):
    x: int = 1


@dataclass
class Data:
    y: tuple[int, ...] = (1, 2)


def test_objects_in_artifacts_become_plain_data(store, caplog):
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    artifact = [Model(), Data(), (1,), b"\x00\xff", {1: 2}, moment, UUID(int=5), frozenset({3})]
    store.add("s", [ToolMessage("", tool_call_id="c", artifact=artifact)])
    assert store.messages("s")[0].artifact == [
        {"x": 1},
        {"y": [1, 2]},
        [1],
        {"base64": "AP8="},
        {"1": 2},
        "2026-01-01T00:00:00+00:00",
        str(UUID(int=5)),
        [3],
    ]
    assert caplog.records == []


def test_what_json_cannot_express_is_kept_as_text_with_one_warning(store, caplog):
    class Odd:
        def __repr__(self):
            return "<odd \ud800>"

    class Broken:
        def __repr__(self):
            raise ValueError

    loop: list[object] = []
    loop.append(loop)
    artifact = {"a": Odd(), "b": [Odd()], "c": Broken(), "d": 10**5000, "e": loop}
    with caplog.at_level(logging.WARNING):
        store.add("s", [ToolMessage("", tool_call_id="c", id="t", artifact=artifact)])
    found = store.messages("s")[0].artifact
    assert found["a"] == found["b"][0] == "<odd \ud800>"
    assert "Broken object at" in found["c"]
    assert found["d"] == hex(10**5000)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "Odd" in caplog.text


def test_marks_that_a_view_added_are_not_stored(store):
    marks = {"created_at": "2026-01-01T01:00:00+01:00", "pinned": True, "cut": {"head": 1}}
    store.add("s", [HumanMessage("x", id="x", response_metadata={"a": 1, "tokenmem": marks})])
    row = store.rows("s")[0]
    assert row.message.response_metadata == {"a": 1, "tokenmem": {"pinned": True}}
    assert row.created_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert row.created_at.utcoffset() == timedelta(0)


@pytest.mark.parametrize("told", ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00", "2026-01-01"])
def test_times_are_utc(store, told):
    store.add("s", [HumanMessage("x", response_metadata={"tokenmem": {"created_at": told}})])
    assert store.rows("s")[0].created_at == datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("told", ["yesterday", 5, "0001-01-01T00:00:00+10:00"])
def test_a_time_that_is_none_is_refused(store, told):
    message = HumanMessage("x", response_metadata={"tokenmem": {"created_at": told}})
    with pytest.raises(ConfigurationError, match="ISO 8601"):
        store.add("s", [message])
    assert store.count("s") == 0


class Strange(HumanMessage):
    type: str = "strange"


@pytest.mark.parametrize("odd", [7, {"role": "user"}, None, Strange("x")])
def test_what_is_no_message_is_refused(store, odd):
    with pytest.raises(ConfigurationError):
        store.add("s", [odd])


def test_a_stored_body_of_an_unknown_type_is_damage_and_nothing_is_imported(file_store, path):
    file_store.add("s", [HumanMessage("x", id="x")])
    body = json.dumps({"type": "antigravity.Message", "lc": 1, "id": ["antigravity"], "data": {}})
    with sqlite3.connect(path) as raw:
        change = "UPDATE tokenmem_messages SET message = ?, checksum = ?"
        raw.execute(change, (body, checksum(body)))
    raw.close()
    with pytest.raises(CorruptStoreError, match="backup"):
        file_store.messages("s")
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "null",
        '"ai"',
        "{}",
        '{"type": "ai"}',
        '{"type": [], "data": {}}',
        "[" * 100_000,
        '{"type": "remove", "data": {"id": "x"}}',
        '{"type": "tool", "data": {"content": 5}}',
        '{"type": "constructor", "data": {}}',
        '{"type": "ai", "data": [["content", "x"]]}',
    ],
)
def test_a_stored_body_that_is_no_message_is_damage(body):
    with pytest.raises(CorruptStoreError):
        decoded_message(body)


def test_a_new_file_is_opened_while_another_program_writes_to_it(tmp_path):
    path = tmp_path / "memory.db"
    other = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    ends = threading.Timer(0.1, other.rollback)
    ends.start()
    with TranscriptStore(path) as store:
        store.add("s", [HumanMessage("Hello.")])
        assert [message.text for message in store.messages("s")] == ["Hello."]
    ends.join()
    other.close()

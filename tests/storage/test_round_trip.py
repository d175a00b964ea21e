"""Round trips: every message comes back equal, and no stored body becomes another object."""

import json
import math
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
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
from langchain_tokenmem.storage.message_json import checksum
from tests.storage.samples import sql
from tests.strategies import conversations

DETAILS = {"input_token_details": {"cache_read": 3}, "output_token_details": {"reasoning": 2}}
USAGE = {"input_tokens": 5, "output_tokens": 7, "total_tokens": 12, **DETAILS}
CALL = {"name": "look", "args": {"q": ["数", None, 1.5]}, "id": "c1", "type": "tool_call"}
BROKEN = {"name": "look", "args": '{"q": ', "id": "c2", "error": "", "type": "invalid_tool_call"}
NUMBERS = [2**64, -(2**70), 10**400, 0.1, 1e308, math.inf, 2**53 + 1, True, None]
TEXTS = ["a\x00b", "\udfff\ud800 \ude00\ud83d", "\\ud800 \\x00", "\r\n\t", "x" * 100_000]
ANSWERED = {
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "abc"},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "text", "text": "ok", "citations": [{"cited_text": "x", "start": 0}]},
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"q": 1}},
    ],
    "usage_metadata": USAGE,
    "response_metadata": {"model_name": "m", "logprobs": {"content": [-1.5, 1e-300]}},
    "additional_kwargs": {"reasoning_content": "…", "refusal": None},
}
BLOCKS_V1 = [
    {"type": "reasoning", "reasoning": "so", "extras": {"signature": "s"}},
    {"type": "text", "text": "v1"},
    {"type": "tool_call", "id": "c3", "name": "look", "args": {}},
]
V1 = {"output_version": "v1"}
FAILED = {"status": "error", "artifact": {"rows": [1, 2, {"a": None}]}, "name": "look"}
EVERY_TYPE = [
    SystemMessage("Be brief.", id="1", additional_kwargs={"cache_control": {"type": "ephemeral"}}),
    HumanMessage([{"type": "text", "text": "hi"}, "and"], id="2", name="ann"),
    HumanMessage([{"type": "image", "base64": "AAAA", "mime_type": "image/png"}], id="3"),
    AIMessage(**ANSWERED, id="4", tool_calls=[CALL], invalid_tool_calls=[BROKEN], name="bot"),
    AIMessage(content_blocks=BLOCKS_V1, id="5", response_metadata=V1),
    ToolMessage("no", id="6", tool_call_id="c1", **FAILED),
    ToolMessage([{"type": "text", "text": "x"}], id="7", tool_call_id="c3", artifact=NUMBERS),
    FunctionMessage("1", id="8", name="old"),
    ChatMessage("hello", id="9", role="developer"),
    HumanMessage("", id="10", response_metadata={"tokenmem": {"pinned": True}}),
    AIMessage("extra", id="11", example=True, custom_field={"kept": 1}),
    *(HumanMessage(t, id=f"t{n}", additional_kwargs={t: [t]}, name=t) for n, t in enumerate(TEXTS)),
]
CALLS = [{"name": "f", "args": '{"a": 1}', "id": "c", "index": 0}]
CHUNKS = [
    AIMessageChunk("hel", tool_call_chunks=CALLS, usage_metadata=USAGE, chunk_position="last"),
    HumanMessageChunk("x", id="13"),
    ToolMessageChunk("y", id="14", tool_call_id="c", artifact={"z": 1}),
]


def test_every_message_type_comes_back_equal_from_the_transcript(path):
    with TranscriptStore(path) as store:
        store.add("s", EVERY_TYPE)
    with TranscriptStore(path) as store:
        found = store.messages("s")
        assert store.get("s", "4") == EVERY_TYPE[3]
    assert found == EVERY_TYPE
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


class Model(BaseModel):
    x: int = 1


@dataclass
class Data:
    y: tuple[int, ...] = (1, 2)


class Odd:
    def __repr__(self):
        return "<odd \ud800>"


def test_objects_in_artifacts_become_plain_data_or_text_with_one_warning(store, caplog):
    moment, key = datetime(2026, 1, 1, tzinfo=UTC), UUID(int=5)
    plain = [Model(), Data(), (1,), b"\x00\xff", {1: 2}, moment, key, frozenset({3})]
    store.add("s", [ToolMessage("", tool_call_id="c", artifact=plain)])
    time = "2026-01-01T00:00:00+00:00"
    read = [{"x": 1}, {"y": [1, 2]}, [1], {"base64": "AP8="}, {"1": 2}, time, str(key), [3]]
    assert store.messages("s")[0].artifact == read
    assert caplog.records == []
    loop: list[object] = []
    loop.append(loop)
    foreign = {"a": Odd(), "b": [Odd()], "d": 10**5000, "e": loop}
    store.add("s", [ToolMessage("", tool_call_id="c", id="t", artifact=foreign)])
    found = store.get("s", "t").artifact
    assert found["a"] == found["b"][0] == "<odd \ud800>"
    assert found["d"] == hex(10**5000)
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.parametrize("told", ["2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00", "2026-01-01"])
def test_marks_that_a_view_added_are_not_stored_and_times_are_utc(store, told):
    marks = {"created_at": told, "pinned": True, "cut": {"head": 1}}
    store.add("s", [HumanMessage("x", id="x", response_metadata={"a": 1, "tokenmem": marks})])
    row = store.rows("s")[0]
    assert row.message.response_metadata == {"a": 1, "tokenmem": {"pinned": True}}
    assert row.created_at.isoformat() == "2026-01-01T00:00:00+00:00"
    wrong = HumanMessage("y", response_metadata={"tokenmem": {"created_at": "yesterday"}})
    with pytest.raises(ConfigurationError, match="ISO 8601"):
        store.add("s", [HumanMessage("a"), wrong])
    assert store.count("s") == 1


def test_a_stored_body_of_an_unknown_type_is_damage_and_nothing_is_imported(file_store, path):
    file_store.add("s", [HumanMessage("x", id="x")])
    body = json.dumps({"type": "antigravity.Message", "lc": 1, "id": ["antigravity"], "data": {}})
    sql(path, f"UPDATE tokenmem_messages SET message = '{body}', checksum = {checksum(body)}")  # noqa: S608
    with pytest.raises(CorruptStoreError, match="backup"):
        file_store.messages("s")
    assert "antigravity" not in sys.modules

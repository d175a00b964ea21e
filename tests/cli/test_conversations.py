"""Recordings that replay plays: those of `tokenmem import`, with ids by place and their tools."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_tokenmem.cli.replay import load_conversations
from langchain_tokenmem.errors import TokenMemoryError

READ = {"name": "read_file", "arguments": '{"path": "a.txt"}'}
TOOL = {"type": "function", "function": {"name": "read_file"}}
SAID = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": "What is in a.txt?"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "call-1", "function": READ}]},
    {"role": "tool", "tool_call_id": "call-1", "name": "read_file", "content": "hello"},
    {"role": "assistant", "content": "It says hello."},
]


def load(tmp_path: Path, text: str, *, packed: bool = False):
    path = tmp_path / "said.jsonl"
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    return load_conversations(path)


def calling(arguments):
    call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": arguments}}
    return json.dumps(
        [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [call]}]
    )


@pytest.mark.parametrize("arguments", ['{"path": "a.', "[1, 2]", '"text"', "[" * 100_000])
def test_arguments_that_are_no_object_become_an_invalid_call(arguments, tmp_path):
    message = load(tmp_path, calling(arguments))[0].messages[1]
    assert message.tool_calls == []
    assert message.invalid_tool_calls[0]["id"] == "c"
    assert message.invalid_tool_calls[0]["args"] == arguments


@pytest.mark.parametrize(("arguments", "args"), [(None, {}), ({"a": 1}, {"a": 1})])
def test_arguments_may_be_missing_or_parsed_already(arguments, args, tmp_path):
    assert load(tmp_path, calling(arguments))[0].messages[1].tool_calls[0]["args"] == args


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (json.dumps({"id": "one", "messages": SAID}), ["one"]),
        (json.dumps(SAID), ["conversation 1"]),
        (json.dumps([SAID, {"id": 7, "messages": SAID}]), ["conversation 1", "7"]),
        (
            f"{json.dumps(SAID)}\n\n{json.dumps({'messages': SAID})}\n",
            ["conversation 1", "conversation 2"],
        ),
        ("\n".join(map(json.dumps, SAID)), ["conversation 1"]),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_every_form_of_file_is_read(tmp_path: Path, text: str, names: list[str], packed):
    conversations = load(tmp_path, text, packed=packed)
    assert [conversation.name for conversation in conversations] == names
    assert all(len(conversation.messages) == len(SAID) for conversation in conversations)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "is empty"),
        ('{"messages": []}', "no messages"),
        ('{"a": 1}', "no message"),
        ('{"tokenmem_export": 1}', "is an export"),
        ('[{"role": "wizard", "content": "hi"}]', "message 1"),
        ('[{"role": "assistant", "content": "", "tool_calls": ["x"]}]', "message 1"),
    ],
)
def test_something_else_is_said_to_be_something_else(tmp_path: Path, text: str, error: str):
    with pytest.raises(TokenMemoryError, match=error):
        load(tmp_path, text)


def test_every_role_becomes_its_message_with_an_id_by_place(tmp_path):
    (one,) = load(tmp_path, json.dumps({"messages": SAID, "tools": [TOOL, "odd"]}))
    kinds = [SystemMessage, HumanMessage, AIMessage, ToolMessage, AIMessage]
    assert [type(message) for message in one.messages] == kinds
    assert [message.id for message in one.messages] == ["m0", "m1", "m2", "m3", "m4"]
    assert one.messages[2].content == ""
    assert one.messages[2].tool_calls[0]["args"] == {"path": "a.txt"}
    assert one.messages[3].tool_call_id == "call-1"
    assert one.tools == (TOOL,)

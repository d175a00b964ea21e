from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_tokenmem.cli.conversations import load_conversations, to_messages

SAID = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is in a.txt?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "call-1",
                "type": "function",
                "function": {"name": "read_file", "arguments": '{"path": "a.txt"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "call-1", "name": "read_file", "content": "hello"},
    {"role": "assistant", "content": "It says hello."},
]


def call(arguments):
    return {"role": "assistant", "tool_calls": [{"id": "c", "function": arguments}]}


def test_every_role_becomes_its_message_with_an_id_by_place():
    messages = to_messages(SAID)
    kinds = [SystemMessage, HumanMessage, AIMessage, ToolMessage, AIMessage]
    assert [type(message) for message in messages] == kinds
    assert [message.id for message in messages] == ["m0", "m1", "m2", "m3", "m4"]
    assert messages[2].content == ""
    assert messages[2].tool_calls[0]["args"] == {"path": "a.txt"}
    assert messages[3].tool_call_id == "call-1"


@pytest.mark.parametrize("arguments", ['{"path": "a.', "[1, 2]", '"text"', "[" * 100_000])
def test_arguments_that_are_no_object_become_an_invalid_call(arguments):
    (message,) = to_messages([call({"name": "read", "arguments": arguments})])
    assert message.tool_calls == []
    assert message.invalid_tool_calls[0]["id"] == "c"
    assert message.invalid_tool_calls[0]["args"] == arguments


@pytest.mark.parametrize(("arguments", "args"), [("", {}), (None, {}), ({"a": 1}, {"a": 1})])
def test_arguments_may_be_missing_or_parsed_already(arguments, args):
    (message,) = to_messages([call({"name": "read", "arguments": arguments})])
    assert message.tool_calls[0]["args"] == args


def test_an_unknown_role_is_named():
    with pytest.raises(ValueError, match=r"Message m0 of .*'wizard'"):
        to_messages([{"role": "wizard", "content": "hi"}])


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
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_every_form_of_file_is_read(tmp_path: Path, text: str, names: list[str], packed):
    path = tmp_path / "said.jsonl"
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    conversations = load_conversations(path)
    assert [conversation.name for conversation in conversations] == names
    assert all(len(conversation.messages) == len(SAID) for conversation in conversations)


def test_a_line_separator_inside_a_text_does_not_end_the_line(tmp_path: Path):
    row = json.dumps([{"role": "user", "content": "a\u2028b"}], ensure_ascii=False)
    path = tmp_path / "said.jsonl"
    path.write_text(f"{row}\n{row}", encoding="utf-8")
    assert [c.messages[0].content for c in load_conversations(path)] == ["a\u2028b"] * 2


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "holds no conversation"),
        ("[]", "holds no conversation"),
        ('{"messages": []}', "no list of messages"),
        ('{"a": 1}', "no list of messages"),
        ('{"a": 1}\n{"b"', "Line 2 is not JSON"),
    ],
)
def test_something_else_is_said_to_be_something_else(tmp_path: Path, text: str, error: str):
    path = tmp_path / "said.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=error):
        load_conversations(path)


@pytest.mark.parametrize(
    "row",
    [
        {"messages": [{"role": "assistant", "content": "", "tool_calls": ["x"]}]},
        {"messages": [{"role": "assistant", "content": "", "tool_calls": {"id": 1}}]},
        {"messages": [{"role": "assistant", "tool_calls": [{"id": "c", "function": "f"}]}]},
    ],
)
def test_calls_of_another_shape_are_said_to_be_so(tmp_path, row):
    file = tmp_path / "odd.json"
    file.write_text(json.dumps([row]), encoding="utf-8")
    with pytest.raises(ValueError, match="chat format"):
        load_conversations(file)


def test_a_cut_archive_is_said_to_be_one(tmp_path):
    file = tmp_path / "cut.jsonl.gz"
    file.write_bytes(gzip.compress(b'{"messages": []}' * 50)[:30])
    with pytest.raises(ValueError, match="no whole"):
        load_conversations(file)

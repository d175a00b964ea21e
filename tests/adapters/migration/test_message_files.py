"""Files of messages in every form, read line by line; bad ones are named with file and line."""

import gzip
import json
import sys
import warnings

import pytest
from langchain_core.load import dumpd
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    convert_to_openai_messages,
    messages_to_dict,
)
from sqlalchemy import create_engine, event

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.adapters.importing import sessions_in_file, sql_histories
from langchain_tokenmem.errors import ConfigurationError, HistoryImportError
from langchain_tokenmem.storage import import_sources as sources
from langchain_tokenmem.storage.import_sources import history_engine

CALL = {"name": "f", "args": {"n": 1}, "id": "c", "type": "tool_call"}
SAID = [
    SystemMessage("Be brief.", id="s"),
    HumanMessage("hi\u2028there", id="h"),
    AIMessage("", tool_calls=[CALL], id="a"),
    ToolMessage("r", tool_call_id="c", id="t"),
]


def lines(values):
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)


def read(path):
    return [
        (one.name, [each.message for each in one.messages or ()]) for one in sessions_in_file(path)
    ]


EVERY = [*SAID, ChatMessage("hi", role="critic", id="c"), FunctionMessage("12", name="f", id="f")]
AS_DICTS, AS_LC = messages_to_dict(EVERY), [dumpd(message) for message in EVERY]
FORMS = {
    "LangChain JSON": json.dumps(AS_DICTS),
    "indented": json.dumps(AS_DICTS, indent=2),
    "LangChain JSON Lines": lines(AS_DICTS),
    "serialized": json.dumps(AS_LC, indent=2),
    "serialized lines": "\ufeff" + lines(AS_LC),
    "state": json.dumps({"messages": AS_LC}, indent=1),
    "dumped lines": lines(message.model_dump(mode="json") for message in EVERY),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_langchain_gives_the_same_messages(tmp_path, form):
    file = tmp_path / "chat.json"
    file.write_text(FORMS[form], encoding="utf-8")
    assert read(file) == [(None, EVERY)]
    file.write_bytes(gzip.compress(FORMS[form].encode()))
    assert read(file) == [(None, EVERY)]


def test_a_dump_of_a_model_keeps_fields_that_the_chat_format_lacks(tmp_path):
    bad = {"name": "f", "args": "{n", "id": "b", "error": "no JSON", "type": "invalid_tool_call"}
    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    said = [
        AIMessage("", tool_calls=[CALL], invalid_tool_calls=[bad], usage_metadata=usage),
        ToolMessage("r", tool_call_id="c", artifact={"rows": [1]}, status="error"),
        AIMessageChunk("In Lund."),
    ]
    openai = convert_to_openai_messages(SAID[2]) | {"type": "ai"}
    file = tmp_path / "chat.json"
    dumped = [message.model_dump(mode="json") for message in said]
    file.write_text(json.dumps([*dumped, openai]), encoding="utf-8")
    ((_, found),) = read(file)
    assert found[:-1] == said
    assert found[-1].tool_calls == [CALL]


@pytest.mark.parametrize("system", ["Be brief.", [{"type": "text", "text": "Be brief."}]])
def test_the_system_text_of_a_request_to_anthropic_is_kept(tmp_path, system):
    use = {"type": "tool_use", "id": "t", "name": "find", "input": {"q": "W4711"}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "In Lund."}
    asked = {"role": "user", "content": "Where?"}
    said = [asked, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    file = tmp_path / "chat.jsonl"
    requests = [{"system": system, "messages": said}, {"system": {"os": "x"}, "messages": said}]
    file.write_text(lines(requests), encoding="utf-8")
    (_, found), (_, without) = read(file)
    assert (found[0], found[1:]) == (SystemMessage(system), without)
    assert without[0] == HumanMessage("Where?")


@pytest.mark.parametrize("indent", [None, 2])
def test_openai_messages_are_read_with_ids_calls_and_times(tmp_path, indent):
    file = tmp_path / "chat.jsonl"
    recorded = convert_to_openai_messages(SAID)
    recorded[1] |= {"created_at": 1_714_557_600, "id": "h"}
    whole = lines(recorded) if indent is None else json.dumps(recorded, indent=indent)
    file.write_text(whole, encoding="utf-8")
    ((_, found),) = read(file)
    assert [m.content for m in found] == [m.content for m in SAID]
    assert found[2].tool_calls == SAID[2].tool_calls
    with TranscriptStore("sqlite://") as store:
        store.import_history(found, "s")
        row = store.rows("s")[1]
        assert (row.message.id, row.created_at.isoformat()) == ("h", "2024-05-01T10:00:00+00:00")


@pytest.mark.parametrize(
    ("arguments", "args", "invalid"),
    [
        *((given, None, given) for given in ("{a", "[1, 2]", '"text"', "[" * 100_000)),
        *((given, given or {}, None) for given in (None, {"a": 1})),
    ],
    ids=["cut", "list", "text", "deep", "none", "parsed"],
)
def test_arguments_that_are_no_object_are_an_invalid_call(tmp_path, arguments, args, invalid):
    file = tmp_path / "chat.jsonl"
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    file.write_text(lines([{"role": "assistant", "content": None, "tool_calls": [call]}]))
    ((_, (message,)),) = read(file)
    assert [one["args"] for one in message.invalid_tool_calls] == ([invalid] if invalid else [])
    assert [one["args"] for one in message.tool_calls] == ([] if invalid else [args])


def test_a_line_may_be_a_conversation(tmp_path):
    file = tmp_path / "tuning.jsonl"
    said = {"role": "user", "content": "hi"}
    file.write_text(lines([{"messages": [said]}, {"id": "b", "messages": [said, said]}, [said]]))
    assert [(name, len(found)) for name, found in read(file)] == [(None, 1), ("b", 2), (None, 1)]


GOOD = '{"role": "user", "content": "hi"}\n'


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "bad.jsonl: The file is empty"),
        (GOOD + '{"role": "user"', "bad.jsonl, line 2: It is not JSON"),
        ('{\n"messages": [\n}', "bad.jsonl, line 3: It is not JSON"),
        (GOOD * 2 + '{"role": "nobody", "content": "x"}\n', "line 3: It is not a message"),
        (GOOD + "7\n", r"bad.jsonl, line 2: It is not a message .*: 7\. docs/importing.md lists"),
        (GOOD + '{"type": "os", "data": {}}\n', "line 2: It is not a message"),
        (GOOD + '{"type": "human", "data": {"content": 7}}\n', "line 2: It is not a message"),
        ('{"messages": 7}', "line 1: Its messages are not a list"),
        ("[" * 100_000, "nested too deeply"),
        (GOOD.encode() + b"\xff\xfe\n", "bad.jsonl, line 2: It is not UTF-8"),
        (gzip.compress(GOOD.encode() * 1_000)[:-20], "bad.jsonl, line .*rest of it cannot be read"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path, text, error):
    file = tmp_path / "bad.jsonl"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(HistoryImportError, match=error):
        read(file)


@pytest.mark.parametrize(
    "foreign",
    [
        {"id": ["langchain", "chat_models", "openai", "ChatOpenAI"], "type": "constructor"},
        {"id": ["os", "system"], "type": "constructor"},
        {"id": ["HOME"], "type": "secret"},
        dumpd(RemoveMessage(id="h")),
    ],
)
def test_nothing_but_messages_is_ever_made_of_a_file(tmp_path, foreign):
    file = tmp_path / "bad.json"
    file.write_text(json.dumps([{"lc": 1, "kwargs": {}, **foreign}]))
    with pytest.raises(HistoryImportError, match="message 1: It is not a message"):
        read(file)


def test_a_field_named_type_does_not_hide_the_role(tmp_path):
    file = tmp_path / "said.json"
    file.write_text(json.dumps([{"role": "assistant", "type": "tool", "content": "hi"}]))
    [(_, [message])] = read(file)
    assert (type(message), message.text) == (AIMessage, "hi")


# Histories of langchain-community


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from langchain_community.chat_message_histories import SQLChatMessageHistory

CHAT = [
    HumanMessage("hi", id="h"),
    AIMessage("", tool_calls=[CALL]),
    ToolMessage("r", tool_call_id="c", artifact={"rows": [1]}),
    AIMessage("done"),
]


@pytest.fixture
def engine(tmp_path):
    engine = create_engine(f"sqlite:///{tmp_path}/old.db")
    yield engine
    engine.dispose()


def without_ids(messages):
    return [message.model_copy(update={"id": None}) for message in messages]


@pytest.mark.slow
def test_a_sql_history_is_read_from_its_table_in_pages(store, engine, monkeypatch):
    monkeypatch.setattr(sources, "PAGE", 3)
    monkeypatch.setattr(SQLChatMessageHistory, "messages", property(lambda self: 1 / 0))
    histories = {name: SQLChatMessageHistory(name, connection=engine) for name in ("s", "other")}
    for _ in range(2):  # the rows of two sessions alternate
        for history in histories.values():
            history.add_messages(CHAT)
    queries = []
    event.listen(engine, "before_cursor_execute", lambda *given: queries.append(given[2]))
    assert store.import_history(histories["s"], "s").added == 7  # one has an id, and came twice
    assert len([query for query in queries if query.startswith("SELECT")]) == 3
    assert without_ids(store.messages("s")) == without_ids([*CHAT, *CHAT[1:]])
    histories["s"].add_message(AIMessage("more"))
    assert store.import_history(histories["s"], "s").added == 1
    assert store.import_history(histories["s"], "s").added == 0


def test_every_session_of_a_table_is_found_and_nothing_is_made(store, tmp_path, engine):
    for name in ("b", "a"):
        SQLChatMessageHistory(name, table_name="talks", connection=engine).add_messages(CHAT)
    with history_engine(f"sqlite:///{tmp_path}/old.db") as opened:
        found = dict(sql_histories(opened, "talks"))
        assert [*found] == ["b", "a"]
        assert store.import_history(found["a"], "a").added == 4
        with pytest.raises(ConfigurationError, match=r"no table 'message_store'.*talks"):
            list(sql_histories(opened))
        with pytest.raises(ConfigurationError, match="no session 'c'"):
            list(sql_histories(opened, "talks", "c"))


def test_without_langchain_community_it_is_said_what_to_install(engine, monkeypatch):
    SQLChatMessageHistory("s", connection=engine).add_messages(CHAT)
    monkeypatch.setitem(sys.modules, "langchain_community.chat_message_histories", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'langchain-tokenmem\[community\]'"):
        list(sql_histories(engine))

"""Reader of facts: kinds of calls by table, failures, announcements, reading message by message."""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langchain_tokenmem.core.facts import call_kinds
from langchain_tokenmem.core.facts.call_kinds import CallKind, kind_of_command, kind_of_tool
from langchain_tokenmem.core.facts.reader import FactsReader, ToolCallFact, statements_of
from langchain_tokenmem.core.facts.utterances import Utterance

TABLES = tomllib.loads(
    files("langchain_tokenmem.core.facts").joinpath("tool_kinds.toml").read_text(encoding="utf-8")
)


def called(name: str, args: dict[str, Any], result: str = "", **kwargs: Any) -> ToolCallFact:
    """Return the fact of one call with its result."""
    call = {"id": "c1", "name": name, "args": args, "type": "tool_call"}
    reader = FactsReader()
    reader.add(AIMessage("", tool_calls=[call]), 1)
    reader.add(ToolMessage(result, tool_call_id="c1", **kwargs), 2)
    [fact] = reader.facts
    assert isinstance(fact, ToolCallFact)
    return fact


@pytest.mark.parametrize("kind", TABLES["words"])
def test_each_word_of_the_table_tells_the_kind_of_a_tool(kind: str) -> None:
    for word in TABLES["words"][kind]:
        assert kind_of_tool(f"{word}_thing") is CallKind(kind)
        assert kind_of_tool(f"my-{word}") is CallKind(kind)


@pytest.mark.parametrize("kind", TABLES["commands"])
def test_each_command_of_the_table_tells_the_kind_of_a_call(kind: str) -> None:
    for word in TABLES["commands"][kind]:
        assert kind_of_command(f"cd /app && {word} x.py") is CallKind(kind)
        assert called("bash", {"command": f"{word} x.py"}).kind is CallKind(kind)


def test_a_tool_that_no_list_knows_is_of_another_kind() -> None:
    assert kind_of_tool("frobnicate") is CallKind.OTHER
    assert kind_of_command("frobnicate x") is CallKind.RUN


def test_a_word_added_to_the_open_table_tells_the_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(call_kinds._BY_WORD, "frobnicate", CallKind.EDIT)
    fact = called("frobnicate_file", {"path": "src/a.py"}, "ok")
    assert (fact.kind, fact.path) == (CallKind.EDIT, "src/a.py")


def test_an_editor_is_told_by_its_action() -> None:
    viewed = called("str_replace_editor", {"command": "view", "path": "/a.py"})
    created = called("str_replace_editor", {"command": "create", "path": "/a.py"})
    assert (viewed.kind, created.kind) == (CallKind.READ, CallKind.EDIT)


@pytest.mark.parametrize(
    ("result", "kwargs"),
    [
        ("boom", {"status": "error"}),
        ("2 tests ran", {"artifact": {"exit_code": 2}}),
        ('{"output": "2 tests ran", "exit_code": 2}', {}),
        ("2 tests ran\nExit code: 2", {}),
        ('{"success": false, "detail": "no"}', {}),
        ('{"status": 404}', {}),
        ('Traceback (most recent call last):\n  File "a.py", line 1\nValueError: bad', {}),
        ("bash: pytset: command not found", {}),
    ],
)
def test_a_failure_is_known_however_it_is_told(result: str, kwargs: dict[str, Any]) -> None:
    fact = called("bash", {"command": "make test"}, result, **kwargs)
    assert fact.has_result
    assert fact.failure
    assert fact.outcome == ""


@pytest.mark.parametrize(
    ("result", "kwargs"),
    [
        ("12 passed", {}),
        ("12 passed\nExit code: 0", {}),
        ('{"output": "fine", "exit_code": 0}', {"artifact": {"exit_code": 0}}),
        ('{"success": true, "status": 200}', {}),
    ],
)
def test_a_success_is_no_failure(result: str, kwargs: dict[str, Any]) -> None:
    assert called("bash", {"command": "make test"}, result, **kwargs).failure is None


def test_a_file_that_speaks_of_errors_was_read() -> None:
    code = "def parse(text):\n" + "    # says what went wrong\n" * 30 + "    raise ParseError(text)"
    assert called("read_file", {"path": "parse.py"}, code).failure is None


def test_a_call_without_its_result_has_none() -> None:
    reader = FactsReader()
    call = {"id": "c1", "name": "bash", "args": {"command": "ls"}, "type": "tool_call"}
    reader.add(AIMessage("", tool_calls=[call]), 1)
    [fact] = reader.facts
    assert isinstance(fact, ToolCallFact)
    assert not fact.has_result


MESSAGES = st.lists(
    st.one_of(
        st.text(max_size=80).map(HumanMessage),
        st.sampled_from(
            (
                HumanMessage("Never deploy on a Friday. Use port 8443."),
                HumanMessage("Actually, use port 9443."),
                AIMessage("The cause is E4711 in src/a.py."),
                AIMessage(
                    "",
                    tool_calls=[
                        {"id": "a", "name": "bash", "args": {"command": "ls"}, "type": "tool_call"}
                    ],
                ),
                ToolMessage("a.py\nb.py", tool_call_id="a"),
                ToolMessage("Error: no such file", tool_call_id="a"),
            )
        ),
    ),
    max_size=12,
)


@given(MESSAGES, st.integers(0, 12))
def test_reading_on_gives_what_reading_at_once_gives(messages: list[BaseMessage], cut: int) -> None:
    whole, parts = FactsReader(), FactsReader()
    for place, message in enumerate(messages):
        whole.add(message, place)
    for place, message in enumerate(messages[:cut]):
        parts.add(message, place)
    seen = list(parts.facts)
    for place, message in enumerate(messages[cut:], len(messages[:cut])):
        parts.add(message, place)
    assert parts.facts == whole.facts
    assert (parts.passed_at, parts.said_at) == (whole.passed_at, whole.said_at)
    # what was read stands; only calls get their results
    for before, after in zip(seen, parts.facts, strict=False):
        assert before == after or isinstance(before, ToolCallFact)


def said(text: str, *, by_user: bool = False) -> list[Utterance]:
    return list(statements_of(text, 0, by_user=by_user))


@pytest.mark.parametrize(
    "before",
    [
        "Let me check the config: ",
        "Now let me check the stats table to understand it: ",
        "I'll call the function.\n<function=get_users>{}</function> ",
        "Let me run it.\n```\nmake test\n``` ",
    ],
)
def test_a_fact_behind_an_announcement_or_a_call_is_a_statement(before: str) -> None:
    fact = "The proxy listens on port 8443."
    assert fact in [one.text for one in said(before + fact)]


@pytest.mark.parametrize("filler", ["By the way, ", "FYI: ", "Before I forget, ", "Übrigens: "])
def test_fillers_before_a_fact_are_left_out(filler: str) -> None:
    [one] = said(f"{filler}the archive proxy is on 8443. Thanks!", by_user=True)
    assert one.text == "the archive proxy is on 8443."


def test_a_port_is_a_literal_and_a_year_is_a_plain_number() -> None:
    [one] = said("The proxy is on 8443 since 2024.", by_user=True)
    assert {found.text: found.kind for found in one.literals} == {
        "8443": "long_number",
        "2024": "number",
    }


def test_the_short_end_of_a_pasted_text_stands_for_itself() -> None:
    pasted = "\n".join(f"The report number {n} tells of one slow query." for n in range(40))
    found = said(f"{pasted}\n\nThe last good commit is 9c50f24455.", by_user=True)
    beside = {one.text: one.beside for one in found}
    assert beside.pop("The last good commit is 9c50f24455.") == 1
    assert set(beside.values()) == {41}
    assert all(re.match("The report", text) for text in beside)


def test_what_is_left_of_a_sentence_before_an_announcement_ends_with_one_full_stop() -> None:
    said = "The `pattern` rule is declared on line 29. Let's look at how the parser works."
    assert [one.text for one in statements_of(said, 1, by_user=False)] == [
        "The `pattern` rule is declared on line 29."
    ]

"""`tokenmem import` and `tokenmem export`, from outside."""

import json
import os
import sqlite3
import subprocess
import sys
import warnings

import pytest
from langchain_core.messages import HumanMessage, messages_to_dict

from langchain_tokenmem import TokenBudget, TranscriptStore
from langchain_tokenmem.errors import ScopeError
from tests.cli.command import ran
from tests.storage.samples import save_state, state, turn


def run(*given, code=0):
    return " ".join(ran(*given, code=code).split())


@pytest.fixture
def target(tmp_path):
    return tmp_path / "new.db"


@pytest.fixture
def full(tmp_path):
    path = tmp_path / "full.db"
    with TranscriptStore(path, shared=True) as store:
        store.add("s1", [*turn(1, 2), *turn(2)], user_id="ann")
        save_state(store, "s1", state("a1", "h1"))
        store.set_budget("s1", TokenBudget(context_window=4_000))
        store.add("s2", [HumanMessage("lone \ud800 surrogate", id="x")])
    return path


def test_the_name_of_an_imported_session_is_printed_without_control_characters(target, tmp_path):
    file = tmp_path / "chat.json"
    said = {"role": "user", "content": "Hi."}
    file.write_text(json.dumps({"id": "a\u202eb", "messages": [said]}))
    assert "a?b: 1 message imported" in run("import", file, target)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["jsonl", "json"])
def test_what_is_exported_is_imported_again(full, target, tmp_path, form):
    file = tmp_path / "out.json"
    run("export", full, "--out", file, "--format", form)
    output = run("import", file, target)
    assert "2 sessions: 8 messages." in output
    assert "s1: 7 messages imported, 0 were already there. Its summary and state" in output
    with TranscriptStore(full, shared=True) as store, TranscriptStore(target, shared=True) as copy:
        for name in ("s1", "s2"):
            assert copy.rows(name) == store.rows(name)
            assert copy.state(name).state == store.state(name).state
            assert copy.state(name).budget == store.state(name).budget
        assert copy.sessions(user_id="ann") == ["s1"]
    assert "2 sessions: 0 messages." in run("import", file, target)


def test_one_session_of_an_export_is_imported_alone(full, target, tmp_path):
    file = tmp_path / "out.jsonl"
    run("export", full, "--out", file)
    for options, says in (
        (("--session", "mine"), "has 2 named sessions"),
        (("--from", "checkpoints", "--user", "x"), "--user"),  # it would not be followed
        (("--from", "sql", "--summary", "x"), "--summary"),
    ):
        assert says in run("import", file, target, *options, code=2)
    assert "1 session: 1 message." in run("import", file, target, "--session", "s2")
    with TranscriptStore(target, shared=True) as store:
        assert store.sessions() == ["s2"]


@pytest.mark.parametrize("form", ["jsonl", "json"])
def test_a_damaged_session_hides_no_other(full, target, tmp_path, form):
    with sqlite3.connect(full) as connection:
        damage = "UPDATE tokenmem_messages SET checksum = checksum + 1 WHERE message_id = 'x'"
        assert connection.execute(damage).rowcount == 1
    connection.close()
    file = tmp_path / "out"
    arguments = ("export", full, "--out", file, "--format", form)
    assert "Left out: Session 's2': the row of message 1" in run(*arguments, code=1)
    assert "1 session: 7 messages." in run("import", file, target)
    listed = run("sessions", full)
    assert "s1 question 1" in listed
    assert "s2 (damaged" in listed
    assert "sessions 2 " in run("stats", full)


def test_a_file_is_a_session_of_its_name_or_of_the_one_given(tmp_path, target):
    file = tmp_path / "chat.json"
    file.write_text(json.dumps(messages_to_dict(turn(1))))
    assert "chat: 2 messages imported" in run("import", file, target)
    run("import", file, target, "--session", "mine", "--user", "ann", "--summary", "Old.")
    with TranscriptStore(target, shared=True) as store:
        assert store.sessions() == ["chat", "mine"]
        assert store.sessions(user_id="ann") == ["mine"]
        assert store.state("mine").state["summary"]["entries"][0]["text"] == "Old."


def test_a_system_text_beside_the_messages_and_among_them_is_imported_once(tmp_path, target):
    file, system = tmp_path / "chat.json", {"role": "system", "content": "Be brief."}
    said = {"system": "Be brief.", "messages": [system, {"role": "user", "content": "Hi"}]}
    file.write_text(json.dumps(said))
    assert "chat: 2 messages imported" in run("import", file, target)


def test_the_error_of_a_database_is_printed_without_the_statement(tmp_path):
    file = tmp_path / "odd.db"
    file.write_bytes(b"SQLite format 3\x00" + bytes(200))
    assert "The source cannot be read (file is not a database)." in run("sessions", file, code=2)


def test_a_bad_line_leaves_with_2_and_says_file_line_and_how_far(tmp_path, target):
    file = tmp_path / "chat.jsonl"
    file.write_text('{"role": "user", "content": "hi"}\n{"role": "nobody"}\n')
    output = run("import", file, target, code=2)
    assert "chat.jsonl, line 2: It is not a message" in output
    assert "Nothing was imported." in output
    run("import", tmp_path / "none.json", target, code=2)


def histories_of(path, *names):
    """Fill a table of `SQLChatMessageHistory`, a message for each session."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from langchain_community.chat_message_histories import SQLChatMessageHistory
    for name in names:
        history = SQLChatMessageHistory(name, connection=f"sqlite:///{path}")
        history.add_messages([HumanMessage(f"I am {name}.")])
        history.engine.dispose()
    return path


@pytest.mark.slow
def test_owners_are_found_in_the_names_of_sessions(tmp_path, target):
    old = histories_of(tmp_path / "old.db", "ann--1", "ann--2", "bob--1", "guest")
    find = ("import", old, target, "--owner-pattern")
    assert "Session 'guest' does not match" in run(*find, "(?P<user>.+?)--.+", code=2)
    assert "4 sessions: 1 message" in run(*find, "(?P<user>guest|.+?(?=--)).*")
    renamed = tmp_path / "renamed.db"
    pattern = "(?P<user>[a-z]+)(--)?(?P<session>.*)"
    run("import", old, renamed, "--session", "ann--1", "--owner-pattern", pattern)
    with TranscriptStore(renamed) as store:
        assert store.sessions(user_id="ann") == ["1"]
    with TranscriptStore(target, require_user=True) as store:
        assert store.sessions(user_id="ann") == ["ann--1", "ann--2"]
        assert [m.content for m in store.messages("bob--1", user_id="bob")] == ["I am bob--1."]
        with pytest.raises(ScopeError):
            store.messages("bob--1", user_id="ann")


def test_an_owner_pattern_that_finds_no_owner_is_refused(tmp_path, target):
    file = tmp_path / "chat.json"
    file.write_text(json.dumps(messages_to_dict(turn(1))))
    for more, says in (
        (("(",), "is not a regular expression"),
        ((".*",), "has no group for the user"),
        (("(?P<user>.*)", "--user", "ann"), "each session has one owner"),
    ):
        assert says in run("import", file, target, "--owner-pattern", *more, code=2)
    assert not target.exists()


def test_an_export_of_nothing_says_so(full):
    assert run("export", full, "--user", "bob") == "No session was found."


@pytest.mark.slow
def test_an_export_whose_reader_has_gone_ends_without_a_word(full):
    reading, writing = os.pipe()
    os.close(reading)  # as `head` does
    command = [sys.executable, "-m", "langchain_tokenmem", "export", str(full)]
    done = subprocess.run(command, check=False, stdout=writing, stderr=subprocess.PIPE)  # noqa: S603
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")

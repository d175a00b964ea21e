"""Sections of work on files: task, progress, files, errors."""

import pytest

from tests.core.working_notes.notes_reading import bash, call, heard, items, read, texts, user

TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: bad port\nexit'


def test_a_new_task_takes_the_place_of_the_old_and_clears_progress():
    first = [user("Fix the parser."), *bash("make", "error: no rule", 2), *bash("make")]
    state = read(first)
    assert texts(state, "task") == ["Fix the parser."]
    assert texts(state, "progress") == ["Fixed: make"]
    after = read([*first, user("Now write the docs for the parser.")], state)
    assert texts(after, "task") == ["Now write the docs for the parser."]
    assert texts(after, "progress") == []


def test_files_have_the_strongest_verb_of_what_was_done_with_them():
    said = [user("Look at docs/plan.md and fix it."), *call("read_file", {"path": "src/a.py"})]
    said += call("edit_file", {"path": "src/b.py"}) + call("read_file", {"path": "src/b.py"})
    said += bash("python tools/run.py && cat notes.txt > out.txt")
    said += bash("git commit -m 'Fix\nrm src/old.py'\ncat src/new.py")  # the file of a quoted line
    assert [(one["text"], one.get("verb")) for one in items(read(said), "files")] == [
        ("docs/plan.md", None),
        ("src/a.py", "read"),
        ("src/b.py", "changed"),
        ("tools/run.py", "ran"),
        ("notes.txt", "read"),
        ("out.txt", "changed"),
        ("src/old.py", "ran"),
        ("src/new.py", "read"),
    ]


@pytest.mark.parametrize(
    ("calls", "error"),
    [
        (bash("pytest tests", f"running\nERROR: setup failed\n{TRACEBACK}", 1),
         "pytest tests → ValueError: bad port"),
        (bash("cd app\nmake all", "no rule", 2), "cd app; make all → no rule"),
        (bash("make", "3 tests, 1 wrong", 2), "make → 3 tests, 1 wrong"),
        (bash("false", "", 1), "false → exit 1"),
        (call("bash", {"command": "go test"}, "FAIL parse\nExit code: 1"), "go test → FAIL parse"),
        (call("bash", {"command": "x"}, "Exit code: 3"), "x → exit 3"),
        (call("bash", {"command": "mvn test"}, "bash: mvn: command not found"),
         "mvn test → bash: mvn: command not found"),
        (call("bash", {"command": "make"}, "cc a.c\nmake: *** [Makefile:19: all] Error 2"),
         "make → make: *** [Makefile:19: all] Error 2"),
    ],
)  # fmt: skip
def test_an_error_shows_the_call_with_its_last_error_line_and_is_no_command(calls, error):
    state = read(calls)
    assert [(one["text"], one["by"]) for one in items(state, "errors")] == [(error, "tool")]
    assert texts(state, "commands") == []


def test_the_same_call_that_succeeds_later_resolves_its_error_and_is_progress():
    messages = [*bash("go test ./...", "FAILED: x", 1), *bash("make lint", "error: y", 1)]
    state = read([*messages, *bash("go test ./... 2>&1 | tail", "ok")])
    assert texts(state, "errors") == ["make lint → error: y"]
    assert texts(state, "progress") == ["Fixed: go test ./... 2>&1 | tail"]


def test_a_pasted_error_is_kept_for_five_turns():
    pasted = user("pytest says\n\nValueError: bad port\n\nany idea?")
    state = read([*bash("make", "error: y", 1), pasted, *(user("Hm, and now?") for _ in range(4))])
    assert texts(state, "errors") == ["make → error: y", "ValueError: bad port"]
    assert texts(read([user("Hm, and now?")], state), "errors") == ["make → error: y"]


def test_neither_an_error_nor_a_rule_is_a_task():
    state = heard("I get this:\nKeyError: 'id'", "Please don't use an ORM anywhere.")
    assert texts(state, "task") == texts(state, "objective") == []
    for said in ("Don't use regex, I want you to write a parser.", "There is an error in line 3."):
        assert texts(heard(said), "task") == [said]


def test_a_list_of_todos_gives_progress_and_sub_goals():
    statuses = {"Read it": "completed", "Write tests": "in_progress", "Update docs": "pending"}
    todos = [{"content": text, "status": status} for text, status in statuses.items()]
    state = read(call("write_todos", {"todos": todos}))
    assert texts(state, "progress") == ["Read it"]
    assert texts(state, "subgoals") == ["Write tests", "Update docs"]

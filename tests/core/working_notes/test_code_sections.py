"""Sections of work on files: task, progress, files, errors."""

import pytest

from tests.core.working_notes.notes_reading import bash, call, items, read, texts, user

TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: bad port\nexit'


def test_a_new_task_takes_the_place_of_the_old_and_clears_progress() -> None:
    first = [user("Fix the parser."), *bash("make", "error: no rule", 2), *bash("make")]
    state = read(first)
    assert texts(state, "task") == ["Fix the parser."]
    assert texts(state, "progress") == ["Fixed: make"]
    after = read([*first, user("Now write the docs for the parser.")], state)
    assert texts(after, "task") == ["Now write the docs for the parser."]
    assert texts(after, "progress") == []


def test_files_have_the_strongest_verb_of_what_was_done_with_them() -> None:
    state = read(
        [
            user("Look at docs/plan.md and fix it."),
            *call("read_file", {"path": "src/a.py"}),
            *call("edit_file", {"path": "src/b.py"}),
            *call("read_file", {"path": "src/b.py"}),
            *bash("python tools/run.py && cat notes.txt > out.txt"),
        ]
    )
    assert [(one["text"], one.get("verb")) for one in items(state, "files")] == [
        ("docs/plan.md", None),
        ("src/a.py", "read"),
        ("src/b.py", "changed"),
        ("tools/run.py", "ran"),
        ("notes.txt", "read"),
        ("out.txt", "changed"),
    ]


def test_an_error_shows_the_call_with_its_last_error_line() -> None:
    output = f"running\nERROR: setup failed\n{TRACEBACK}"
    state = read(bash("pytest tests", output, 1))
    assert texts(state, "errors") == ["pytest tests → ValueError: bad port"]
    [error] = items(state, "errors")
    assert error["by"] == "tool"


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("mvn test", "/bin/bash: line 7: mvn: command not found"),
        ("ls src", "ls: cannot access 'src': No such file or directory"),
        ("make", "cc -c a.c\nmake: *** [Makefile:19: build] Error 2"),
        ("apt install emacs", "Reading package lists...\nE: Unable to locate package emacs"),
        ("ping a", "EXECUTION TIMED OUT"),
    ],
)
def test_a_failure_without_an_exit_code_is_an_error_and_no_command(
    command: str, output: str
) -> None:
    state = read(call("bash", {"command": command}, output))
    assert texts(state, "errors") == [f"{command} → {output.splitlines()[-1]}"]
    assert texts(state, "commands") == []


def test_the_lines_of_a_failed_command_are_kept_apart() -> None:
    state = read(bash("cd app\nmake all", "no rule", 2))
    assert texts(state, "errors") == ["cd app; make all → no rule"]


def test_an_exit_code_without_an_error_line_shows_the_last_line() -> None:
    assert texts(read(bash("make", "3 tests, 1 wrong", 2)), "errors") == ["make → 3 tests, 1 wrong"]
    assert texts(read(bash("false", "", 1)), "errors") == ["false → exit 1"]
    told = call("bash", {"command": "go test"}, "FAIL parse\nExit code: 1")
    assert texts(read(told), "errors") == ["go test → FAIL parse"]
    assert texts(read(call("bash", {"command": "x"}, "Exit code: 3")), "errors") == ["x → exit 3"]


def test_the_same_call_that_succeeds_later_resolves_its_error_and_is_progress() -> None:
    messages = [*bash("go test ./...", "FAILED: x", 1), *bash("make lint", "error: y", 1)]
    state = read([*messages, *bash("go test ./... 2>&1 | tail", "ok")])
    assert texts(state, "errors") == ["make lint → error: y"]
    assert texts(state, "progress") == ["Fixed: go test ./... 2>&1 | tail"]


def test_a_pasted_error_is_kept_for_five_turns() -> None:
    pasted = user("pytest says\n\nValueError: bad port\n\nany idea?")
    state = read([*bash("make", "error: y", 1), pasted, *(user("Hm, and now?") for _ in range(4))])
    assert texts(state, "errors") == ["make → error: y", "ValueError: bad port"]
    assert texts(read([user("Hm, and now?")], state), "errors") == ["make → error: y"]


def test_neither_an_error_nor_a_rule_is_a_task() -> None:
    state = read([user("I get this:\nKeyError: 'id'"), user("Please don't use an ORM anywhere.")])
    assert texts(state, "task") == texts(state, "objective") == []
    for said in ("Don't use regex, I want you to write a parser.", "There is an error in line 3."):
        assert texts(read([user(said)]), "task") == [said]


def test_a_list_of_todos_gives_progress_and_sub_goals() -> None:
    todos = [
        {"content": "Read the parser", "status": "completed"},
        {"content": "Write the tests", "status": "in_progress"},
        {"content": "Update the docs", "status": "pending"},
    ]
    state = read(call("write_todos", {"todos": todos}))
    assert texts(state, "progress") == ["Read the parser"]
    assert texts(state, "subgoals") == ["Write the tests", "Update the docs"]

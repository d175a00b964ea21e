"""Effects of tool calls, read from the calls and their results."""

import json

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_tokenmem.core.facts.failures import exit_code_of
from langchain_tokenmem.core.working_notes.tool_kinds import (
    ToolKinds,
    TurnMemorySettings,
    plain_path,
)

PATCH = (
    "*** Begin Patch\n*** Update File: src/a.py\n@@\n-x\n+y\n*** Add File: b.py\n+z\n"
    "*** Delete File: c.py\n*** Update File: d.py\n*** Move to: e.py\n*** End Patch"
)
RENAMED = "diff --git a/a.py b/b.py\nsimilarity index 100%\nrename from a.py\nrename to b.py\n"
DIFF = "--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-x\n+y\n--- /dev/null\n+++ b/new.py\n@@\n+z\n"


def effect(name, args, result="ok", *, root=None, kinds=None, **fields):
    call = AIMessage("", id="a", tool_calls=[{"name": name, "args": args, "id": "1"}])
    answer = ToolMessage(result, id="t", tool_call_id="1", **fields)
    settings = TurnMemorySettings(tools=kinds or ToolKinds(), project_root=root)
    (found,) = settings.effects([call, answer])
    return found


def changed(name, args, result="ok", **options):
    return effect(name, args, result, **options).changed


@pytest.mark.parametrize(
    ("name", "args", "files"),
    [
        ("write_file", {"path": "a.go", "content": "x"}, ("a.go",)),
        ("mcp__fs__edit_file", {"path": "a.go"}, ("a.go",)),
        ("str_replace_editor", {"command": "str_replace", "path": "a.go"}, ("a.go",)),
        ("move_file", {"source": "a.go", "destination": "b.go"}, ("a.go", "b.go")),
        ("delete_file", {"path": "a.go"}, ("a.go",)),
        ("push_files", {"files": [{"path": "a.go"}, {"path": "b.go"}]}, ("a.go", "b.go")),
        ("apply_patch", {"input": PATCH}, ("src/a.py", "b.py", "c.py", "d.py", "e.py")),
        ("apply_patch", {"patch": DIFF}, ("src/a.py", "new.py")),
        ("apply_patch", {"patch": RENAMED}, ("a.py", "b.py")),
        ("write_file", {"request": {"path": "a.go", "content": "x"}}, ("a.go",)),
        ("write_file", {"path": 5}, ()),
        ("write_file", {"path": "C:\\work\\a.go"}, ("C:/work/a.go",)),
        ("fs_write_file", {"path": "a.go"}, ("a.go",)),
        ("WriteFile", {"path": "a.go"}, ("a.go",)),
        ("create_file", {"path": "a.go"}, ("a.go",)),
        ("filesystem.write_file", {"path": "übersicht/说明.md"}, ("übersicht/说明.md",)),
        ("delete_file", {"paths": ["a.go", "b.go"]}, ("a.go", "b.go")),
        (
            "shell",
            {"command": ["apply_patch", PATCH]},
            ("src/a.py", "b.py", "c.py", "d.py", "e.py"),
        ),
    ],
)
def test_writing_tools_change_the_files_of_their_arguments(name, args, files):
    assert changed(name, args) == files


ERRORS = [
    "Error: no such file",
    "ERROR:\nNo replacement was performed, old_str did not appear",
    '{"type":"text","text":"Error: Invalid formula syntax","annotations":null}',
    json.dumps({"content": [{"text": json.dumps({"type": "text", "text": "Invalid id"})}]}),
    '{"content": [{"type": "text", "text": "x"}], "isError": true}',
    '{"success": false, "message": "locked"}',
    "Permission denied: a.go",
    "[interrupted: no result of this tool call was recorded]",
    "Tool call edit_file with id 1 was cancelled - another message came in",
]
MENTIONS = [
    "Successfully wrote to error.log",
    '{"content": [{"type": "text", "text": "error.log written"}], "isError": false}',
    "The file has been edited:\n 1 raise ValueError: bad\n 2 # error: this",
    "",
]


@pytest.mark.parametrize("result", [*ERRORS, *MENTIONS])
def test_a_write_whose_result_is_an_error_is_no_change_and_one_that_mentions_errors_is(result):
    files = ("error.log",) if result in MENTIONS else ()
    assert changed("edit_file", {"path": "error.log"}, result) == files


def test_calls_and_results_as_anthropic_writes_them_are_read():
    use = {"type": "tool_use", "id": "1", "name": "edit_file", "input": {"path": "a.go"}}
    result = {"type": "tool_result", "tool_use_id": "1", "content": "ok"}
    found = TurnMemorySettings().effects([AIMessage([use]), HumanMessage([result])])
    assert [one.changed for one in found] == [("a.go",)]


@pytest.mark.parametrize(
    ("path", "root", "plain"),
    [
        ("./b.go", None, "b.go"),
        ("/app/b.go", "/app", "b.go"),
        ("../b.go", "/app", "/b.go"),
        ("/application/b.go", "/app", "/application/b.go"),
        ("/app/b.go", None, "/app/b.go"),
        ("file:///app/b.go", "/app", "b.go"),
        ("C:\\Work\\src\\b.go", "c:\\work", "src/b.go"),
        ("a\nb.go", None, "a b.go"),
        (".", "/app", None),
    ],
)
def test_a_path_is_relative_to_the_root_and_absolute_outside_of_it(path, root, plain):
    assert plain_path(path, root) == plain


@pytest.mark.parametrize(
    ("result", "code"),
    [
        ("Exit code: 1", 1),
        ("Exit code 1\nlots\nof\noutput\nthat\nfollows", 1),
        ("x\n[The command completed with exit code 1.]", 1),
        ("x\n[Command failed with exit code 127]", 127),
        ("<returncode>1</returncode>\n<output>x</output>", 1),
        ("<error>Exit code 1\nboom</error>", 1),
        ("Exit code: -9 (killed)", -9),
        ("Exit code: 0", 0),
        ('{"stdout": "x", "exit_code": 4}', 4),
        ('[{"type": "text", "text": "x"}, {"type": "text", "text": "\\nExit code: 5"}]', 5),
        ('{"meta": null, "content": [{"type": "text", "text": "x\\nExit code: 6"}]}', 6),
        ("the function returns exit code 2", None),
        ("a\nExit code: 1\nb", None),
        ("", None),
    ],
)
def test_an_exit_code_is_read_where_results_report_it(result, code):
    assert exit_code_of(ToolMessage(result, tool_call_id="1")) == code


def test_the_command_of_a_shell_call_is_its_script():
    assert effect("shell", {"command": ["bash", "-lc", "go test"]}).command == "go test"
    assert effect("shell", {"input": {"command": "go test"}}).command == "go test"
    assert effect("terminal", {"commands": ["go vet", "go test"]}).command == "go vet; go test"
    assert effect("bash", {"command": None}).command is None


def test_the_tables_of_the_application_are_added_to_the_usual_names():
    kinds = ToolKinds(
        writes={"save_page": "page_path"}, commands={"run_job": "script"}, reads={"edit_file"}
    )
    assert effect("save_page", {"page_path": "a.md"}, kinds=kinds).changed == ("a.md",)
    assert effect("write_file", {"path": "a.md"}, kinds=kinds).changed == ("a.md",)
    assert effect("mcp__fs__edit_file", {"path": "a.md"}, kinds=kinds).changed == ()
    assert effect("run_job", {"script": "nightly"}, kinds=kinds).command == "nightly"

"""What marks a tool result as an error, so that more of it is kept."""

import json
from types import SimpleNamespace

import pytest
from langchain_core.messages import ToolMessage

from langchain_tokenmem.core.tool_failures import is_error, unwrapped

WRAPPED = "page loaded\n" * 8 + "- [ERROR] a.js: ERROR: no ad\n" + "- link\n" * 900
LOG = "compiled module, all is well\n" * 200
SIGNS = [
    *("Error: no such user", "panic: runtime error", "fatal: not a git repository"),
    *("Stack trace:\n  at main", "Exception: boom", "Traceback (most recent call last):"),
    *("./main.go:7:2: undefined: foo", "./a.go:3:9: cannot use x (type int) as string"),
    *("--- FAIL: TestAdd (0.00s)", "    --- FAIL: TestAdd/negative (0.00s)"),
    *("cat: /etc/shadow: Permission denied", "bash: javac: command not found"),
    *("line 4: syntax error near token", "Compilation failed", "BUILD FAILED in 3s"),
    *("ValueError: bad date", "java.io.IOException: closed", "a.c:3:5: error: expected ;"),
]


def result(text, **fields):
    return ToolMessage(text, tool_call_id="c", **fields)


@pytest.mark.parametrize("sign", SIGNS)
def test_each_sign_marks_an_error_result_wherever_it_stands(sign):
    may_be_prose = sign.startswith(("cat", "bash", "line"))  # in the middle of a log
    middle = [] if may_be_prose else [f"{LOG}{sign}\n{LOG}"]
    assert all(is_error(result(text)) for text in (sign, LOG + sign, f"{sign}\n{LOG}", *middle))


@pytest.mark.parametrize(
    ("text", "fields", "expected"),
    [
        *[(LOG + told, {}, True) for told in ("Exit code: 1", "exited with code 137")],
        (LOG + "Exit code: 0", {}, False),
        ('{"output": "x", "metadata": {"exit_code": 137}}', {}, True),
        ('{"exit_code": 0, "output": "x"}', {}, False),
        ("<returncode>1</returncode>", {}, True),
        ("<returncode>0</returncode>", {}, False),
        ("", {"artifact": {"exit_code": 2}}, True),
        ("", {"artifact": {"exit_code": None}}, False),
        ("", {"artifact": SimpleNamespace(returncode=1)}, True),
        ("", {"artifact": SimpleNamespace(returncode=0)}, False),
        ("", {"status": "error"}, True),
        ("Exceptionally satisfied with the service: an exceptional hotel.", {}, False),
        ("0 errors, 0 warnings", {}, False),
        (LOG + "        raise ValueError: never\n" + LOG, {}, False),
        (json.dumps({"content": "rows 1 to 3", "error": "TimeoutError: no answer"}), {}, True),
        (
            json.dumps({"content": [{"type": "text", "text": WRAPPED}]}),
            {},
            False,
        ),
    ],
)
def test_exit_code_and_status_decide_and_words_that_only_look_like_an_error_do_not(
    text, fields, expected
):
    assert is_error(result(text, **fields)) is expected


def test_a_list_of_anything_else_than_blocks_is_no_wrapper():
    assert unwrapped('[{"type": "text", "text": "3 rows"}]') == "3 rows"
    assert unwrapped('["text", {"text": "3 rows"}]') == '["text", {"text": "3 rows"}]'

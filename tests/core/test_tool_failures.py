"""What marks a tool result as an error, so that more of it is kept."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from langchain_core.messages import ToolMessage

from langchain_tokenmem.core.tool_failures import is_error

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
@pytest.mark.parametrize("around", ["{}", LOG + "{}", "{}\n" + LOG], ids=["alone", "last", "first"])
def test_each_sign_marks_an_error_result(sign, around):
    assert is_error(result(around.format(sign)))


@pytest.mark.parametrize("sign", [one for one in SIGNS if not one.startswith(("cat", "line"))])
def test_a_line_that_begins_with_a_sign_marks_an_error_in_the_middle_of_a_log(sign):
    if sign.startswith("bash"):
        sign = sign.removeprefix("bash: javac: command ")
    assert is_error(result(LOG + sign + "\n" + LOG))


@pytest.mark.parametrize("text", ["Exit code: 1", "exited with code 137", "Return code: -9"])
def test_an_exit_code_other_than_zero_in_the_text_marks_an_error_result(text):
    assert is_error(result(LOG + text))
    assert not is_error(result(LOG + "Exit code: 0"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"exit_code": 1, "output": "x"}', True),
        ('{"output": "x", "metadata": {"exit_code": 137}}', True),
        ('{"result": {"returncode": "2"}}', True),
        ("<returncode>1</returncode>", True),
        ('{"exit_code": 0, "output": "x"}', False),
        ("<returncode>0</returncode>", False),
    ],
)
def test_an_exit_code_in_a_json_result_marks_an_error_as_one_in_a_line_does(text, expected):
    assert is_error(result(text)) is expected


@dataclass
class Finished:
    returncode: int


@pytest.mark.parametrize("artifact", [{"exit_code": 2}, {"returncode": -9}, Finished(1)])
def test_an_exit_code_other_than_zero_in_the_artifact_marks_an_error_result(artifact):
    assert is_error(result("no words", artifact=artifact))


@pytest.mark.parametrize("artifact", [{"exit_code": 0}, Finished(0), {"exit_code": None}, [1]])
def test_an_exit_code_of_zero_or_none_marks_nothing(artifact):
    assert not is_error(result("no words", artifact=artifact))


def test_the_status_of_the_tool_marks_an_error_result():
    assert is_error(result("no words", status="error"))


@pytest.mark.parametrize(
    "text",
    [
        "Exceptionally satisfied with the service: an exceptional hotel.",
        "0 errors, 0 warnings",
        "the fatalities of 1912",
        LOG + "        raise ValueError: never\n" + LOG,
        LOG + "    except KeyError:\n        print('not found')\n" + LOG,
    ],
)
def test_words_that_only_look_like_an_error_mark_nothing(text):
    assert not is_error(result(text))

"""Which tool results report a failure, and with which line."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from langchain_core.messages import ToolMessage

from langchain_tokenmem.core.facts.call_kinds import CallKind, kind_of_call, kind_of_command
from langchain_tokenmem.core.facts.failures import failure_of
from langchain_tokenmem.core.facts.tool_results import unescaped, unwrapped

WRAPPED = "page loaded\n" * 8 + "- [ERROR] a.js: ERROR: no ad\n" + "- link\n" * 900
LOG = "compiled module, all is well\n" * 200
SIGNS = [
    *("Error: no such user", "panic: runtime error", "fatal: not a git repository"),
    *("Exception: boom", "Traceback (most recent call last):", "--- FAIL: TestAdd (0.00s)"),
    *("./main.go:7:2: undefined: foo", "./a.go:3:9: cannot use x (type int) as string"),
    *("cat: /etc/shadow: Permission denied", "bash: javac: command not found"),
    *("bash: line 4: syntax error near token", "Compilation failed", "BUILD FAILED in 3s"),
    *("ValueError: bad date", "java.io.IOException: closed", "a.c:3:5: error: expected ;"),
]


def result(text, **fields):
    return ToolMessage(text, tool_call_id="c", **fields)


def failure(tool, text, **args):
    return failure_of(result(text), kind_of_call(tool, args))


@pytest.mark.parametrize("sign", SIGNS)
def test_an_error_is_found_anywhere_in_the_output_of_a_command(sign):
    texts = (sign, LOG + sign, f"{sign}\n{LOG}", f"{LOG}{sign}\n{LOG}")
    assert all(failure_of(result(text), CallKind.RUN) for text in texts)


@pytest.mark.parametrize(
    ("text", "fields", "expected"),
    [
        *[(LOG + code, {}, True) for code in ("Exit code: 1", "exited with code 137")],
        ("Error: of a log\nExit code: 0", {}, False),
        ('{"output": "x", "metadata": {"exit_code": 137}}', {}, True),
        ('{"exit_code": 0, "output": "Error: of a log"}', {}, False),
        ("<returncode>1</returncode>", {}, True),
        ("<returncode>0</returncode>", {}, False),
        ("", {"artifact": {"exit_code": 2}}, True),
        ("", {"artifact": {"exit_code": None}}, False),
        ("", {"artifact": SimpleNamespace(returncode=1)}, True),
        ("Error: x", {"artifact": SimpleNamespace(returncode=0)}, False),
        ("", {"status": "error"}, True),
        ("Exceptionally satisfied with the service: an exceptional hotel.", {}, False),
        ("0 errors, 0 warnings", {}, False),
        (LOG + "        raise ValueError: never\n" + LOG, {}, False),
        (json.dumps({"content": "rows 1 to 3", "error": "TimeoutError: no answer"}), {}, True),
        (json.dumps({"content": [{"type": "text", "text": WRAPPED}]}), {}, False),
        (json.dumps({"content": [{"type": "text", "text": "no"}], "isError": True}), {}, True),
        (json.dumps({"status": "failed", "amount": 100}), {}, True),
        (json.dumps({"ok": True, "message": "Error: of a log"}), {}, False),
        (json.dumps({"state": "failed", "title": "Error: x", "error": 0.12}), {}, False),
        ('{"data":' * 900 + '{"error": "x"}' + "}" * 900, {}, False),
    ],
)
def test_what_a_tool_reports_decides_and_words_that_only_look_like_an_error_do_not(
    text, fields, expected
):
    assert (failure_of(result(text, **fields)) is not None) is expected


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"errors": ["name is required"]}', "name is required"),
        ('{"valid": false, "errors": [{"field": "zip", "msg": "5 digits"}]}', "5 digits"),
        ('{"errorMessages": [], "errors": {"project": "is required"}}', "is required"),
        ('{"ok": false, "reason": "fully booked"}', "fully booked"),
        ('{"code": 404, "message": "no such order"}', "no such order"),
        (
            '{"result": {"error": "API error (422)", "details": "no head"}}',
            "API error (422) no head",
        ),
        ("{'success': False, 'message': 'declined'}", "declined"),
        ('{"stdout": "", "stderr": "a\\nKeyError: 1", "exit_code": 1}', "KeyError: 1"),
        ("bash: javac: command not found\nbash: java: command not found", "bash: javac: command"),
        ("Error:\nno such user", "Error: no such user"),
        (
            "Error: (OperationalError) no such column: x\n(Background on this error at: https://a.b)",
            "Error: (OperationalError) no such column: x",
        ),
    ],
)
def test_the_line_of_a_failure_is_what_the_tool_says_about_it(text, line):
    assert failure_of(result(text)).startswith(line)


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        ("search_movies", "Fatal Attraction (1987)\nUnable to Forget (1999)"),
        ("search_songs", "Can't Stop the Feeling"),
        ("ask_user", "Unable to walk long distances"),
        ("search_code", "src/a.py:3: raise ValueError('x')\nsrc/a.py:9: KeyError: 'y'"),
        ("create_issue", "Created issue #3: Build failed"),
        ("add_comment", '{"id": "c1", "message": "Cannot reproduce on 1.2"}'),
        ("cancel_order", '{"order_id": "W1", "status": "cancelled"}'),
        ("get_payment", '{"id": "p1", "status": "failed", "amount": 100}'),
        ("edit_file", "Edited. Result:\n1 def f():\n2     raise ValueError('not found')"),
        ("delete_file", "Deleted failed.log"),
        ("write_file", "Wrote 20 lines to src/required.py"),
        ("create_file", "Created new file src/errors/invalid.py with 20 lines"),
        ("save_memory", "Memory saved - user doesn't like mornings"),
        ("block_card", "Card ending 1234 has been blocked."),
        ("unsubscribe", "You've been unsubscribed and won't receive emails"),
        ("fill_missing", "Filled 33 missing values with the mean"),
        ("get_policy", "Pets are not allowed."),
        ("get_build", '{"id": 4, "status": "failed", "error": "OOM killed"}'),
    ],
)
def test_a_title_a_sentence_of_a_user_or_a_file_about_errors_is_no_failure(tool, text):
    assert failure(tool, text) is None


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        ("book_seat", "Seat 4A is not available"),
        ("pay", "Card was declined by the bank."),
        ("cancel_order", "Order W1 has already been shipped."),
        ("book_flight", "Sorry, this flight is sold out"),
        ("send_email", "Message not sent: the address is wrong"),
        ("query", 'relation "orders" does not exist'),
        ("get_order", "No order with id 4"),
        ("get_order", "Request failed with status code 500"),
        ("wetter", "Ort nicht gefunden"),
    ],
)
def test_an_action_is_refused_in_any_words(tool, text):
    assert failure(tool, text) == text


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("cat a.py && pytest -q", CallKind.RUN),
        ("cd /app\nls\npython main.py", CallKind.RUN),
        ("cat a.log | sort | uniq -c 2>/dev/null", CallKind.READ),
        ("cd src; grep -rn 'a;b' . | xargs wc -l", CallKind.SEARCH),
        ("ls && rm a.py", CallKind.EDIT),
        ("cat a.py; sed -E -i.bak s/a/b/ a.py", CallKind.EDIT),
        ("sort a.txt -o a.txt", CallKind.EDIT),
        ("sed -n 1,5p a.py | sort -u", CallKind.READ),
        ("echo ok > a.txt", CallKind.RUN),
    ],
)
def test_of_several_commands_the_one_that_does_most_is_the_kind(command, kind):
    assert kind_of_command(command) is kind


def test_a_list_of_anything_else_than_blocks_is_no_wrapper():
    assert unwrapped('[{"type": "text", "text": "3 rows"}]') == "3 rows"
    assert unwrapped('["text", {"text": "3 rows"}]') == '["text", {"text": "3 rows"}]'


def test_a_vertical_tab_of_a_slide_is_the_end_of_a_line():
    assert (
        unescaped(r"struct bucket;\\u000bint hash(char *s)") == "struct bucket;\nint hash(char *s)"
    )

"""Which tool results report a failure, with which line and exit code; and kinds of commands."""

import json
from types import SimpleNamespace

import pytest
from langchain_core.messages import ToolMessage

from langchain_tokenmem.core.facts.call_kinds import CallKind, kind_of_call, kind_of_command
from langchain_tokenmem.core.facts.failures import exit_code_of, failure_of
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


def failure(tool, text):
    args = {"command": "make"} if tool == "bash" else {}
    return failure_of(result(text), kind_of_call(tool, args))


@pytest.mark.parametrize("sign", SIGNS)
def test_an_error_is_found_anywhere_in_the_output_of_a_command(sign):
    texts = (sign, LOG + sign, f"{sign}\n{LOG}", f"{LOG}{sign}\n{LOG}")
    assert all(failure("bash", text) for text in texts)


@pytest.mark.parametrize(
    "text",
    [
        *("2 lights succeeded, 1 failed", "Lighting failed: none of the retries succeeded"),
        *('Lighting failed: "" is no light', "Login failed", "Order not found: 4"),
        *("The exit code 0 of step 1 is fine; step 2 failed.", "Request timed out after 30 s"),
        *("Security violation: Command 'pip' is not allowed", "Fehler: kein Ort"),
        f"Error running tool bash: wrong manifest {'kind: Pod ' * 60}",
        *("ls: cannot access '/x': No such file or directory", "An error occurred: bad id"),
        *("curl: (6) Could not resolve host: x", "zsh: command not found: foo"),
        *("npm ERR! missing script: build", "[ERROR] BUILD FAILURE", "EXECUTION TIMED OUT"),
        *("src/a.ts(3,5): error TS2304: Cannot find name 'x'.", "HTTP Error 403: Forbidden"),
        *("[Errno 2] No such file or directory", "(sqlite3.OperationalError) no such table: x"),
        *("ssh: connect to host x port 22: Connection refused", "Segmentation fault (core dumped)"),
        "Reading package lists...\nE: Unable to locate package emacs",
        "<html><title>404 Not Found</title></html>",
    ],
)
def test_a_command_fails_in_the_words_of_any_program(text):
    assert failure("bash", text)


@pytest.mark.parametrize(
    ("text", "fields", "expected"),
    [
        ("Error: of a log\nExit code: 0", {}, False),
        ("", {"artifact": {"exit_code": 2}}, True),
        ("", {"artifact": {"exit_code": None}}, False),
        ("", {"artifact": SimpleNamespace(returncode=1)}, True),
        ("Error: x", {"artifact": SimpleNamespace(returncode=0)}, False),
        ("", {"status": "error"}, True),
        ("Exceptionally satisfied with the service: an exceptional hotel.", {}, False),
        ("0 errors, 0 warnings", {}, False),
        (LOG + "        raise ValueError: never\n" + LOG, {}, False),
        (json.dumps({"content": [{"type": "text", "text": WRAPPED}]}), {}, False),
        (json.dumps({"content": [{"type": "text", "text": "no"}], "isError": True}), {}, True),
        (json.dumps({"status": "failed", "amount": 100}), {}, True),
        (json.dumps({"ok": True, "message": "Error: of a log"}), {}, False),
        (json.dumps({"ok": True, "errors": ["light 3 failed"]}), {}, True),
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
        ('{"errorMessage": "The light is invalid"}', "The light is invalid"),
        ('{"ok": false, "reason": "fully booked"}', "fully booked"),
        ('{"code": 404, "message": "no such order"}', "no such order"),
        ('{"result": {"error": "API (422)", "details": "no head"}}', "API (422) no head"),
        ("{'success': False, 'message': 'declined'}", "declined"),
        ('["The light was not found"]', "The light was not found"),
        ('{"stdout": "", "stderr": "a\\nKeyError: 1", "exit_code": 1}', "KeyError: 1"),
        ("bash: javac: command not found\nbash: java: command not found", "bash: javac: command"),
        ("Error:\nno such user", "Error: no such user"),
        (
            "Error: (OpError) no x\n(Background on this error at: https://a.b)",
            "Error: (OpError) no",
        ),
    ],
)
def test_the_line_of_a_failure_is_what_the_tool_says_about_it(text, line):
    assert failure_of(result(text)).startswith(line)


KINDS = {
    CallKind.SEARCH: "search_movies search_code query",
    CallKind.READ: "ask_user get_order check_stock read_docs open_page",
    CallKind.EDIT: "create_issue add_comment edit_file delete_file create_file save_memory",
    CallKind.OTHER: "cancel_order block_card unsubscribe fill_missing send_email execute_code run",
}
NO_FAILURE = {
    CallKind.SEARCH: [
        *("Fatal Attraction (1987)\nUnable to Forget (1999)", "Can't Stop the Feeling"),
        "src/a.py:3: raise ValueError('x')\nsrc/a.py:9: KeyError: 'y'",
        *("Summary: The disaster was caused by the failure of a seal.", "[(1, 'failed'), (2, '')]"),
    ],
    CallKind.READ: [
        *("Unable to walk long distances", "Pets are not allowed.", "Booking 22: visa refused"),
        '{"id": 4, "status": "failed", "error": "OOM killed"}',
        '[{"id": 3, "title": "Upload failed"}, {"id": 4, "title": "Cannot log"}]',
        '{"id": 3, "payment": "denied by the bank, then paid", "timeout": 30}',
        "A3 is not found in warehouse 2; there are 14 in warehouse 1.",
        "If you see 'permission denied', check the key.",
        *("500 Service Road, Albany", "404 Media: the company denied it."),
    ],
    CallKind.EDIT: [
        *("Created issue #3: Build failed", '{"id": "c1", "message": "Cannot reproduce on 1.2"}'),
        "Edited. Result:\n1 def f():\n2     raise ValueError('not found')",
        '{"content": [{"type": "text", "text": "error.log"}], "isError": false}',
        *("Created new file src/errors/invalid.py with 20 lines", "Deleted failed.log"),
        *("Wrote 20 lines to src/required.py", "Memory saved - user doesn't like mornings"),
    ],
    CallKind.OTHER: [
        *('{"order_id": "W1", "status": "cancelled"}', "Card ending 1234 has been blocked."),
        "You've been unsubscribed and won't receive emails",
        *("Filled 33 missing values with the mean", "Sent. Delivery failure reports go to a@b.c."),
        *("Mean absolute error: 0.21", "error rate 0.02 after 3 epochs"),
        *("errors: 0\nError: 5%\nException: none", "lines: 8\nerrors: 0\nfailed: 0"),
        *("Done. 0 failed, 14 passed.", "Saved. Return code: 0. Timeout limit: 60 s."),
        *('{"id": 12, "errors": [], "failed": 0, "error_code": ""}', "{'id': 1, 'error': None}"),
    ],
}


@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind, texts in NO_FAILURE.items() for text in texts]
)
def test_a_success_or_a_text_that_mentions_errors_is_no_failure(kind, text):
    assert failure_of(result(text), kind) is None


@pytest.mark.parametrize("kind", KINDS)
def test_the_name_of_a_tool_tells_what_it_does(kind):
    assert {kind_of_call(name, {}) for name in KINDS[kind].split()} == {kind}


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
    ("text", "code"),
    [
        ("Exit code: 1", 1),
        ("Exit code 1\nlots\nof\noutput\nthat\nfollows", 1),
        (LOG + "[The command completed with exit code 1.]", 1),
        ("x\n[Command failed with exit code 127]", 127),
        (LOG + "exited with code 137", 137),
        ("<returncode>1</returncode>\n<output>x</output>", 1),
        ("<returncode>0</returncode>", 0),
        ("<error>Exit code 1\nboom</error>", 1),
        ("Exit code: -9 (killed)", -9),
        ('{"stdout": "x", "exit_code": 4}', 4),
        ('{"output": "x", "metadata": {"exit_code": 137}}', 137),
        ('{"exit_code": 0, "output": "Error: of a log"}', 0),
        ('[{"type": "text", "text": "x"}, {"type": "text", "text": "\\nExit code: 5"}]', 5),
        ('{"meta": null, "content": [{"type": "text", "text": "x\\nExit code: 6"}]}', 6),
        ("the function returns exit code 2", None),
        ("a\nExit code: 1\nb", None),
        ("", None),
    ],
)
def test_an_exit_code_is_read_where_results_report_it_and_decides(text, code):
    assert exit_code_of(result(text)) == code
    assert bool(failure("bash", text)) == bool(code)


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


def test_a_wrapper_of_blocks_and_escapes_of_a_slide_are_undone():
    assert unwrapped('[{"type": "text", "text": "3 rows"}]') == "3 rows"
    assert unwrapped('["text", {"text": "3 rows"}]') == '["text", {"text": "3 rows"}]'
    assert (
        unescaped(r"struct bucket;\\u000bint hash(char *s)") == "struct bucket;\nint hash(char *s)"
    )

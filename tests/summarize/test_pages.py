"""Lines of pages, searches and scripts: what they are about, not how they begin or end."""

import json

import pytest

from tests.summarize.test_extractive import call, lines

TEXT = "Owners of old buildings can apply until September. " * 9
NAVIGATION, FOOTER = "[Home](/) | [Log in](/login)", "© 2026 Energy Agency. Imprint"
MARKDOWN = f"# Grants\n\n{NAVIGATION}\n\n{TEXT}\n\n## Who can apply\n\n{TEXT}\n\n{FOOTER}"
BROWSER = f"### Page state\n- Page URL: https://a.org\n- Page Title: Grants\n```yaml\n{TEXT}\n```"


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        (MARKDOWN, "Grants: Who can apply"),
        (f"Title: Grants\n\nURL Source: https://a.org\n\n{MARKDOWN}", "Grants: Who can apply"),
        (f"<!DOCTYPE html>\n<head><title>Grants</title>\n<body>{TEXT}</body>", "Grants"),
        (BROWSER, "Grants"),
        ("\n".join(f"{n:6}\t{line}" for n, line in enumerate(MARKDOWN.split("\n"), 1)), "Grants: "),
        (
            f"From: Ann <ann@b.org>\nTo: x\nSubject: The roof\n\n{TEXT}\n{TEXT}",
            "Ann <ann@b.org>: The roof",
        ),
        (f"{NAVIGATION}\nGrants for heating\n{TEXT}\n{FOOTER}", "Grants for heating"),
        (
            f"# [Grants](#a) <b>&</b> **loans**[¶](#b)\n\n## Amount\n{TEXT}",
            "Grants & loans: Amount",
        ),
        (f"<html><title>Q&amp;A\n[abcdef] User: → go\x1b</title>{TEXT}", "Q&A (abcdef) User: - go"),
    ],
    ids=["markdown", "reader", "html", "browser", "numbered", "mail", "text", "marks", "signs"],
)
def test_a_page_is_shown_by_its_title_and_headings(result, shown):
    [line] = lines(*call("get_page", result, url="https://a.org/x"))
    assert line.startswith(f"get_page https://a.org/x → {shown}")


def test_the_hits_of_a_search_are_shown_by_their_titles():
    hits = [
        {"title": "Who gets a grant for a heat pump", "url": "https://a.org/1", "score": 0.812},
        {"title": "Noise", "url": "https://b.org/2", "score": 0.5},
    ]
    found = json.dumps({"query": "grants", "results": hits, "images": []}, separators=(",", ":"))
    [line] = lines(*call("web_search", found, query="grants"))
    assert line == (
        "web_search grants → 2 records: title=Who gets a grant for a heat pump, "
        "url=https://a.org/1, title=Noise, url=https://b.org/2"
    )


def test_data_without_spaces_is_read():
    flights = [{"id": f"flight-{n}", "airline": "TAP"} for n in range(30)]
    found = json.dumps(flights, separators=(",", ":"))
    [line] = lines(*call("search_flights", found, to="LIS"))
    assert line.startswith("search_flights LIS → 30 records: id=flight-0, airline=TAP")


def test_imports_say_nothing_about_a_script():
    code = f"import pandas as pd\nfrom pathlib import Path\n\ndata = pd.read_csv('a.csv')\n{TEXT}"
    [line] = lines(*call("python", "ok", code=code))
    assert line.startswith("python data = pd.read_csv('a.csv') [")


@pytest.mark.parametrize(
    ("tool", "args", "result", "shown"),
    [
        (
            "read_file",
            {"path": "a.py"},
            f"# MIT\n\nimport os\n\n## Constants\n\n{TEXT}",
            "import os",
        ),
        (
            "bash",
            {"command": "make"},
            f"# Totals\n\n{TEXT}\n\n## All\n\nIt has failed.",
            "It has failed.",
        ),
        (
            "task",
            {"task": "look"},
            f"# Report\n\n{TEXT}\n\n## Cause\n\nA bug in a.py.",
            "A bug in a.py.",
        ),
        ("read_page", {"id": "7"}, f"# Report\n\n## Summary\n\n{TEXT}\n\nIt rained.", "It rained."),
    ],
    ids=["code", "output", "report", "any headings"],
)
def test_other_results_are_not_shown_by_their_headings(tool, args, result, shown):
    [line] = lines(*call(tool, result, **args), max_tokens=30)
    assert line.endswith(f"→ {shown}")


def test_the_call_of_another_agent_is_shown_by_its_task():
    task = f"Find the grants for heat pumps. {TEXT}"
    made = call("task", "Found two.", description=task, subagent_type="reader")
    [line] = lines(*made, max_tokens=34)
    assert line.startswith("task(description=Find the grants for heat [")
    assert line.endswith("subagent_type=reader) → Found two.")


def test_a_shell_that_says_that_it_succeeded_is_shown_by_its_output():
    output = "3 files changed\nnothing to do\n[Command succeeded with exit code 0]"
    [line] = lines(*call("execute", output, command="make sync"))
    assert line == "execute make sync → 3 files changed nothing to do"

"""`tokenmem redact` and `tokenmem erase` from outside."""

from __future__ import annotations

import json

import pytest
from langchain_core.messages import HumanMessage
from typer.testing import CliRunner

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.cli.app import app

# TOKENMEM_DATA is where recordings are, for integration_tests; no setting
RUN = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TOKENMEM_DATA": None})
CARD = "4111 [b] 1111"


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "memory.db"
    with TranscriptStore(path) as store:
        for user in ("ann", "bob"):
            store.add(f"{user}-1", [HumanMessage(f"{user}: {CARD}")], user_id=user)
    return path


def said(path):
    with TranscriptStore(path) as store:
        return [store.messages(name, user_id=name[:3])[0].content for name in store.sessions()]


def run(*given, **options):
    return RUN.invoke(app, [*map(str, given)], **options)


@pytest.mark.slow
def test_redact_asks_first_and_prints_a_receipt(path):
    before = said(path)
    assert (
        "Would be redacted: messages 1."
        in run("redact", path, CARD, "--user", "ann", "--dry-run").output
    )
    assert run("redact", path, CARD, "--user", "ann", input="n\n").exit_code == 1
    assert said(path) == before
    done = run("redact", path, CARD, "--user", "ann", input="y\n")
    assert "Found: messages 1; of sessions 1. Go on?" in done.output
    assert "Redacted: messages 1." in done.output
    assert said(path) == ["ann: [redacted]", before[1]]
    assert "Redacted: nothing." in run("redact", path, CARD, "--user", "ann", "--yes").output


@pytest.mark.slow
def test_words_from_stdin_and_patterns_are_redacted_everywhere_as_json(path):
    done = run("redact", path, "-", "--everywhere", "-y", "--json", input=f"bob: {CARD}\n")
    receipt = json.loads(done.stdout)
    assert (receipt["counts"], receipt["sessions"]) == ({"messages": 1}, ["bob-1"])
    assert run("redact", path, r"\d{4}", "--pattern", "--everywhere", "-y").exit_code == 0
    assert said(path) == ["ann: [redacted] [b] [redacted]", "[redacted]"]
    wrong = run("redact", path, "(", "--pattern", "--everywhere", "-y")
    assert wrong.exit_code == 2
    assert run("redact", path, CARD, "-y").exit_code == 2


@pytest.mark.slow
def test_erase_counts_asks_and_erases_a_session_or_a_user(path):
    done = run("erase", path, "--user", "ann", "--dry-run", "--json")
    assert json.loads(done.stdout)["counts"] == {"sessions": 1, "messages": 1}
    assert len(said(path)) == 2
    assert run("erase", path, "--user", "ann", input="n\n").exit_code == 1
    assert len(said(path)) == 2
    assert "Erased: sessions 1, messages 1." in run("erase", path, "--user", "ann", "--yes").output
    assert said(path) == [f"bob: {CARD}"]
    run("erase", path, "--thread", "bob-1", "--yes")
    assert said(path) == []
    assert CARD.encode() not in path.read_bytes()
    assert run("erase", path, "--yes").exit_code == 2

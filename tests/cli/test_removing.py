"""`tokenmem redact`, `tokenmem erase` and `tokenmem expire` from outside."""

import json
from datetime import UTC, datetime

import pytest
from langchain_core.messages import HumanMessage

from langchain_tokenmem import TranscriptStore
from tests.cli.command import ran

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


def test_redact_checks_the_owner_of_a_session(path):
    ran("redact", path, CARD, "--session", "ann-1", "--user", "bob", "--yes", code=2)
    ran("redact", path, CARD, "--session", "ann-1", "--user", "ann", "--yes")
    assert said(path)[0] == "ann: [redacted]"


@pytest.mark.slow
def test_redact_asks_first_and_prints_a_receipt(path):
    before, redact = said(path), ("redact", path, CARD, "--user", "ann")
    assert "Would be redacted: 1 message." in ran(*redact, "--dry-run")
    ran(*redact, answer="n\n", code=1)
    assert said(path) == before
    done = ran(*redact, answer="y\n")
    assert "Found: 1 message; in 1 session. Continue?" in done
    assert "Redacted: 1 message." in done
    assert said(path) == ["ann: [redacted]", before[1]]
    assert "Redacted: nothing." in ran(*redact, "--yes")


@pytest.mark.slow
def test_words_from_stdin_and_patterns_are_redacted_everywhere_as_json(path):
    receipt = json.loads(
        ran("redact", path, "-", "--everywhere", "-y", "--json", answer=f"bob: {CARD}\n")
    )
    assert (receipt["counts"], receipt["sessions"]) == ({"messages": 1}, ["bob-1"])
    ran("redact", path, r"\d{4}", "--pattern", "--everywhere", "-y")
    assert said(path) == ["ann: [redacted] [b] [redacted]", "[redacted]"]
    ran("redact", path, "(", "--pattern", "--everywhere", "-y", code=2)
    ran("redact", path, CARD, "-y", code=2)


@pytest.mark.slow
def test_erase_counts_asks_and_erases_a_session_or_a_user(path):
    erase = ("erase", path, "--user", "ann")
    counts = json.loads(ran(*erase, "--dry-run", "--json"))["counts"]
    assert counts == {"sessions": 1, "messages": 1}
    ran(*erase, answer="n\n", code=1)
    assert len(said(path)) == 2
    assert "Erased: 1 session, 1 message." in ran(*erase, "--yes")
    assert said(path) == [f"bob: {CARD}"]
    ran("erase", path, "--thread", "bob-1", "--yes")
    assert said(path) == []
    assert CARD.encode() not in path.read_bytes()
    assert "Name --session or --user" in ran("erase", path, "--yes", code=2)


# --- expire


@pytest.fixture
def aged(tmp_path):
    path = tmp_path / "aged.db"
    with TranscriptStore(path) as store:
        for name in ("old [b] :fire:", "kept"):
            store.add(name, [HumanMessage("hi")], now=datetime(2020, 1, 31, tzinfo=UTC))
        store.keep_session("kept")
        store.add("new", [HumanMessage("hi")])
    return path


def left(path):
    with TranscriptStore(path) as store:
        return store.sessions()


def test_inactive_sessions_are_named_by_a_dry_run_then_deleted_and_counted(aged):
    expire = ("expire", aged, "--inactive-days", "30")
    assert ran(*expire, "--dry-run").splitlines() == [
        "old [b] :fire:",
        "1 session would expire: 1 message.",
        "Inactive and kept: 0 pinned, 1 marked.",
    ]
    assert len(left(aged)) == 3
    assert "1 session expired: 1 session, 1 message." in ran(*expire)
    assert left(aged) == ["kept", "new"]
    assert "0 sessions expired." in ran(*expire)


def test_without_an_age_or_with_a_wrong_one_nothing_expires(aged):
    assert "--inactive-days 30, or store.inactive_for" in ran("expire", aged, code=2)
    assert "give a number above 0" in ran("expire", aged, "--inactive-days", "0", code=2)
    assert len(left(aged)) == 3

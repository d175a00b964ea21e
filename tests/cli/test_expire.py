"""`tokenmem expire` from outside."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from langchain_core.messages import HumanMessage
from typer.testing import CliRunner

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.cli.app import app

# TOKENMEM_DATA is where recordings are, for integration_tests; no setting
RUN = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TOKENMEM_DATA": None})


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "memory.db"
    with TranscriptStore(path) as store:
        for name in ("old [31m", "kept"):
            store.add(name, [HumanMessage("hi")], now=datetime(2020, 1, 31, tzinfo=UTC))
        store.keep_session("kept")
        store.add("new", [HumanMessage("hi")])
    return path


def expire(path, *options):
    return RUN.invoke(app, ["expire", str(path), "--inactive-days", "30", *options])


def test_a_dry_run_names_what_would_go_and_deletes_nothing(path):
    done = expire(path, "--dry-run")
    assert done.exit_code == 0
    assert done.output.splitlines() == [
        "old [31m",
        "1 sessions would expire: 1 messages.",
        "Inactive and kept: 0 pinned, 1 marked.",
    ]
    with TranscriptStore(path) as store:
        assert len(store.sessions()) == 3


def test_inactive_sessions_are_deleted_and_counted(path):
    done = expire(path)
    assert "1 sessions expired: 2 outbox, 1 messages, 1 sessions." in done.output
    with TranscriptStore(path) as store:
        assert store.sessions() == ["kept", "new"]
    assert "0 sessions expired." in expire(path).output


@pytest.mark.parametrize("days", ["0", "-3", "1e12"])
def test_wrong_use_ends_with_2_and_one_line(path, days):
    done = RUN.invoke(app, ["expire", str(path), "--inactive-days", days])
    assert done.exit_code == 2
    assert done.output.startswith("tokenmem expire: ")


def test_the_settings_tell_the_store_and_the_age(path):
    given = {"TOKENMEM_STORE__URL": str(path), "TOKENMEM_STORE__INACTIVE_FOR": "P30D"}
    done = RUN.invoke(app, ["expire"], env=given)
    assert done.exit_code == 0, done.output
    assert "1 sessions expired" in done.output
    with TranscriptStore(path) as store:
        assert {*store.sessions()} == {"kept", "new"}


def test_without_an_age_nothing_expires(path):
    done = RUN.invoke(app, ["expire", str(path)])
    assert done.exit_code == 2
    assert "--inactive-days 30, or store.inactive_for" in done.output


def test_a_file_that_is_not_there_is_not_made(tmp_path):
    done = expire(tmp_path / "missing.db")
    assert done.exit_code == 2
    assert not (tmp_path / "missing.db").exists()

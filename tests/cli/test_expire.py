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
        for name in ("old [b]", "kept"):
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
        "old [b]",
        "1 session would expire: 1 message.",
        "Inactive and kept: 0 pinned, 1 marked.",
    ]
    with TranscriptStore(path) as store:
        assert len(store.sessions()) == 3


def test_inactive_sessions_are_deleted_and_counted(path):
    done = expire(path)
    assert "1 session expired: 1 session, 1 message." in done.output
    with TranscriptStore(path) as store:
        assert store.sessions() == ["kept", "new"]
    assert "0 sessions expired." in expire(path).output


def test_the_settings_tell_the_store_and_the_age(path):
    given = {"TOKENMEM_STORE__URL": str(path), "TOKENMEM_STORE__INACTIVE_FOR": "P30D"}
    done = RUN.invoke(app, ["expire"], env=given)
    assert done.exit_code == 0, done.output
    assert "1 session expired" in done.output
    with TranscriptStore(path) as store:
        assert {*store.sessions()} == {"kept", "new"}


def test_without_an_age_or_with_a_wrong_one_nothing_expires(path):
    for options, said in (
        ([], "--inactive-days 30, or store.inactive_for"),
        (["--inactive-days", "0"], "tokenmem expire: "),
        (["--inactive-days", "1e12"], "tokenmem expire: "),
    ):
        done = RUN.invoke(app, ["expire", str(path), *options])
        assert (done.exit_code, said in done.output) == (2, True)

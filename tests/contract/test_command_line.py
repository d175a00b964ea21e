"""`tokenmem` writes over nothing, and says in one line what is wrong with what it was given."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_tokenmem import Recall, TokenBudget, TranscriptStore
from langchain_tokenmem.errors import ConfigurationError, RecallError, TokenMemoryError
from tests.cli.command import invoked

TALK = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hi."}]
DIGITS = "9" * 5_000
"""More than Python makes a number of."""


def run(*words: Any, **env: str) -> tuple[int, str]:
    """Run a command; fail where it ends with a traceback."""
    done = invoked(*words, COLUMNS="500", **env)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise AssertionError(done.output) from done.exception
    return done.exit_code, done.output


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "memory.db"
    with TranscriptStore(path, shared=True) as store:
        store.add("s", [HumanMessage("Hello.", id="m"), AIMessage("Hi.", id="a")])
    return path


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    path = tmp_path / "talk.jsonl"
    path.write_text(json.dumps(TALK) + "\n")
    return path


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_an_export_never_writes_over_its_store(store: Path, force: tuple[str, ...]):
    link = store.with_name("link.db")
    link.symlink_to(store)
    before = store.read_bytes()
    for out in (store, link):
        code, said = run("export", store, "--out", out, *force)
        assert (code, store.read_bytes()) == (2, before)
        assert "is the store itself" in said


def test_no_command_writes_over_a_file_unless_forced(store: Path, talk: Path, tmp_path: Path):
    (tmp_path / "replay.jsonl").write_text("mine")
    (tmp_path / "out.jsonl").write_text("mine")
    export = ("export", store, "--out", tmp_path / "out.jsonl")
    replay = ("replay", talk, "--window", 4_000, "--out", tmp_path)
    for command, file in ((export, "out.jsonl"), (replay, "replay.jsonl")):
        code, said = run(*command)
        assert (code, (tmp_path / file).read_text()) == (2, "mine")
        assert "--force" in said
        assert run(*command, "--force")[0] == 0
        assert "mine" not in (tmp_path / file).read_text()
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        *("memory.db", "out.jsonl", "replay.jsonl", "talk.jsonl")
    ]


@pytest.mark.slow
def test_a_line_of_any_length_in_an_archive_is_refused_before_it_is_read(tmp_path: Path):
    path = tmp_path / "bomb.jsonl.gz"
    path.write_bytes(gzip.compress(b" " * 1024 * 1024) * 65)
    assert path.stat().st_size < 3_000_000
    code, said = run("import", path, tmp_path / "to.db")
    assert code == 2
    assert "64 MB" in said


@pytest.mark.parametrize(
    "settings",
    [
        "budget: &a\n  window: *a\n",
        "budget: &a [*a]\n",
        "store: &a\n  url: &b [*a, *b]\n",
        f"budget:\n  context_window: {DIGITS}\n",
        pytest.param(f"budget: {'[' * 400}{']' * 400}\n", marks=pytest.mark.slow),
    ],
    ids=["within itself", "list", "both", "number", "deep"],
)
def test_settings_that_cannot_be_read_are_one_clear_error(tmp_path: Path, settings: str):
    file = tmp_path / "odd.yaml"
    file.write_text(settings)
    code, said = run("config", TOKENMEM_CONFIG=str(file))
    assert code == 2
    assert "odd.yaml" in said


@pytest.mark.parametrize("digits", [DIGITS[:400], DIGITS], ids=["400", "5000"])
def test_huge_numbers_are_one_clear_error(store: Path, talk: Path, tmp_path: Path, digits: str):
    assert run("replay", talk, "--window", digits)[0] == 2
    assert run("expire", store, "--inactive-days", digits)[0] == 2
    assert run("expire", store, "--inactive-days", "nan")[0] == 2
    talk.write_text(f'[{{"role": "user", "content": "Hello.", "n": {DIGITS}}}]')
    assert run("replay", talk, "--window", 4_000)[0] == 2
    assert run("import", talk, tmp_path / "to.db")[0] == 2
    with pytest.raises(ConfigurationError, match="context_window"):
        TokenBudget(context_window=10**400)


BAD_IDS = {
    "line break": "a\n2026-01-01 WARNING forged",
    "separator": "a\u2028b",
    "escape": "a\x1b[31m",
    "NUL": "a\x00b",
    "half a pair": "a\ud83d",
    "too long": "a" * 501,
    "too many bytes": "😀" * 251,
}


@pytest.mark.parametrize("bad", BAD_IDS.values(), ids=BAD_IDS)
def test_ids_that_forge_log_lines_or_fit_no_key_are_refused(bad: str, caplog: Any):
    with TranscriptStore("sqlite://", shared=True) as store:
        for refused in (
            lambda: store.add(bad, [HumanMessage("x")]),
            lambda: store.add("s", [HumanMessage("x")], user_id=bad),
            lambda: store.add("s", [HumanMessage("x", id=bad)]),
            lambda: store.messages(bad),
            lambda: store.set_settings(user_id=bad, budget=None),
            lambda: store.keep_session(bad),
            lambda: store.erase(bad),
            lambda: store.erase(user_id=bad),
        ):
            with pytest.raises(TokenMemoryError, match="500 characters") as caught:
                refused()
            assert "\n" not in str(caught.value)
            assert len(str(caught.value)) < 400
        assert store.sessions() == []
        longest = "ä" * 500
        store.add(longest, [HumanMessage("x", id=longest)], user_id=longest)
        assert store.get(longest, longest) is not None
    assert "\n" not in caplog.text.strip()


def test_a_command_refuses_such_an_id(store: Path, talk: Path):
    code, said = run("import", talk, store, "--session", BAD_IDS["line break"])
    assert code == 2
    assert "\\n2026" in said


@pytest.mark.parametrize(
    ("pattern", "error"),
    [
        ("(?:" * 450 + "x" + ")" * 450, ConfigurationError),
        ("(", ConfigurationError),
        # Its compilation takes a minute, and no thread can be stopped.
        ("(" + "|".join(f"{n}{'a?' * 500}" for n in range(4_000)) + ")", ConfigurationError),
        (r"(a|aa)+$", RecallError),
    ],
    ids=["deep", "none", "slow to compile", "slow to match"],
)
def test_no_pattern_takes_longer_than_a_search_may(pattern: str, error: Any):
    with TranscriptStore("sqlite://", shared=True) as store:
        store.add("s", [HumanMessage("a" * 5_000 + "b")])
        with pytest.raises(error) as caught:
            Recall(store).history_search(pattern, session_id="s", timeout_s=0.05)
    assert len(str(caught.value)) < 600

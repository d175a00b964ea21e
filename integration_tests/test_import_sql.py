"""A long SQL history is imported in pages, and goes on after a kill and where its source grew."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from langchain_core.messages import AIMessage, HumanMessage, message_to_dict

from langchain_tokenmem import TranscriptStore

WORKER = Path(__file__).with_name("import_worker.py")
WORDS = "the order number is noted and the customer asks about the delivery on friday morning "


def history(path: Path, count: int) -> str:
    """Make the table of a `SQLChatMessageHistory`, and return the URL of its database."""
    kinds = (HumanMessage, AIMessage)
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute(
            "CREATE TABLE IF NOT EXISTS message_store "
            "(id INTEGER PRIMARY KEY, session_id TEXT, message TEXT)"
        )
        raw.executemany(
            "INSERT INTO message_store (session_id, message) VALUES ('s', ?)",
            (
                (json.dumps(message_to_dict(kinds[n % 2](f"{n}: {WORDS * 3}"))),)
                for n in range(count)
            ),
        )
    return f"sqlite:///{path}"


def figures_of(source: str, target: str) -> dict[str, int]:
    """Import in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(WORKER), source, target],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    return json.loads(done.stdout)


def test_an_import_that_is_killed_goes_on_in_another_process(url, tmp_path):
    count = 4_000
    source = history(tmp_path / "old.db", count)
    with subprocess.Popen(
        [sys.executable, str(WORKER), source, url],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    ) as worker:
        assert worker.stderr is not None
        for line in worker.stderr:
            if line.strip().isdigit() and int(line) >= 1_000:
                worker.kill()
                break
    with TranscriptStore(url) as store:
        before = store.count("s")
        assert 1_000 <= before < count
        figures = figures_of(source, url)
        assert (figures["added"], figures["known"]) == (count - before, before)
        texts = [str(message.content).partition(":")[0] for message in store.messages("s")]
    assert texts[:count] == [str(n) for n in range(count)]


def test_a_source_that_grew_is_imported_on(url, tmp_path):
    source = history(tmp_path / "old.db", 1_200)
    assert figures_of(source, url)["added"] == 1_200
    history(tmp_path / "old.db", 300)
    figures = figures_of(source, url)
    assert (figures["added"], figures["known"]) == (300, 1_200)

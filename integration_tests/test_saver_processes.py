"""Several processes on one thread, and on one file."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from saver_worker import THREAD, WRITERS, compiled, run
from savers import at, id_of

from langchain_tokenmem import TokenMemorySaver, TranscriptStore

EACH = int(os.environ.get("TOKENMEM_TURNS", "200"))


def state_of(saver: BaseCheckpointSaver[Any]) -> list[str]:
    held = compiled(saver).get_state({"configurable": {"thread_id": THREAD}}).values
    return [message.id for message in held["messages"]]


def lost(acknowledged: list[str], ids: list[str]) -> int:
    there = set(ids)
    return sum(not {name, f"{name}-answer"} <= there for name in acknowledged)


def test_eight_processes_take_two_hundred_turns_each_on_one_thread(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/memory.db"
    acknowledged = run("turns", url, EACH, tmp_path / "said")
    with TranscriptStore(url, shared=True) as store:
        ids = state_of(TokenMemorySaver(store))
        transcript = [message.id for message in store.messages(THREAD)]
    assert lost(acknowledged, ids) == 0
    assert [name for name, count in Counter(ids).items() if count > 1] == []
    assert len(ids) == 2 * len(acknowledged)
    for question, answer in zip(ids[::2], ids[1::2], strict=True):
        assert answer == f"{question}-answer"
    assert transcript == ids, "the transcript tells another story"


def test_eight_processes_put_two_hundred_checkpoints_each_in_one_sqlite_file(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/memory.db"
    run("puts", url, EACH, tmp_path / "said")
    with TranscriptStore(url, shared=True) as store:
        saver = TokenMemorySaver(store)
        for writer in (f"w{n}" for n in range(WRITERS)):
            found = list(saver.list(at(writer)))
            assert [one.checkpoint["channel_values"]["n"] for one in found] == list(
                reversed(range(EACH))
            )
            parents = [id_of(one.parent_config) for one in found if one.parent_config]
            assert parents == [id_of(one.config) for one in found[1:]]
            for one in found:
                number = one.checkpoint["channel_values"]["n"]
                texts = [m.content for m in one.checkpoint["channel_values"]["messages"]]
                assert texts == [f"{writer} says {n}" for n in range(number + 1)]
                assert one.pending_writes == [
                    (f"task{number}", "n", number),
                    (f"task{number}", "log", writer),
                ]

"""Several processes on one thread."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from saver_worker import THREAD, compiled, run

from langchain_tokenmem import TokenMemorySaver, TranscriptStore

EACH = int(os.environ.get("TOKENMEM_TURNS", "60"))


def state_of(saver: BaseCheckpointSaver[Any]) -> list[str]:
    held = compiled(saver).get_state({"configurable": {"thread_id": THREAD}}).values
    return [message.id for message in held["messages"]]


def lost(acknowledged: list[str], ids: list[str]) -> int:
    there = set(ids)
    return sum(not {name, f"{name}-answer"} <= there for name in acknowledged)


def test_eight_processes_take_turns_on_one_thread(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/memory.db"
    acknowledged = run(url, EACH)
    with TranscriptStore(url, shared=True) as store:
        ids = state_of(TokenMemorySaver(store))
        transcript = [message.id for message in store.messages(THREAD)]
    assert lost(acknowledged, ids) == 0
    assert [name for name, count in Counter(ids).items() if count > 1] == []
    assert len(ids) == 2 * len(acknowledged)
    for question, answer in zip(ids[::2], ids[1::2], strict=True):
        assert answer == f"{question}-answer"
    assert transcript == ids, "the transcript tells another story"

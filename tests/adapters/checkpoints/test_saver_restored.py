"""A store that is closed may be another one when it is opened again."""

from __future__ import annotations

import shutil

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint

from langchain_tokenmem import TokenMemorySaver, TranscriptStore

THREAD = {"configurable": {"thread_id": "t1", "checkpoint_ns": ""}}


def put(saver, messages, number, parent=None):
    checkpoint = {
        **empty_checkpoint(),
        "id": f"{number:08}",
        "channel_values": {"messages": messages},
        "channel_versions": {"messages": number},
    }
    place = {**THREAD["configurable"], "checkpoint_id": parent and f"{parent:08}"}
    config = saver.put({"configurable": place}, checkpoint, {}, {"messages": number})
    saver.put_writes(config, [("messages", messages[-1:])], "task")


def read(saver):
    found = saver.get_tuple(THREAD)
    values = [*found.checkpoint["channel_values"]["messages"], *found.pending_writes[0][2]]
    return [message.content for message in values]


@pytest.mark.parametrize("size", [2, 40])
def test_nothing_is_remembered_of_what_a_backup_replaced(tmp_path, size):
    file, backup = tmp_path / "memory.db", tmp_path / "backup.db"
    saver = TokenMemorySaver(TranscriptStore(f"sqlite:///{file}"))
    put(saver, [HumanMessage("Hello", id="m0")], 1)
    saver.store.close()
    shutil.copy(file, backup)
    lost = [HumanMessage(f"lost {number}", id=f"m{number}") for number in range(1, size)]
    put(saver, lost, 2, parent=1)
    assert read(saver) == [f"lost {number}" for number in range(1, size)] + [f"lost {size - 1}"]
    saver.store.close()
    shutil.copy(backup, file)
    new = [HumanMessage(f"new {number}", id=f"n{number}") for number in range(1, size)]
    put(saver, new, 2, parent=1)
    assert read(saver) == [f"new {number}" for number in range(1, size)] + [f"new {size - 1}"]
    put(saver, [*new, *lost], 3, parent=2)
    other = TokenMemorySaver(TranscriptStore(f"sqlite:///{file}"))
    assert read(other)[: 2 * size - 2] == [one.content for one in [*new, *lost]]


def test_a_store_in_memory_begins_anew():
    saver = TokenMemorySaver(TranscriptStore("sqlite://"))
    said = [HumanMessage(f"message {number}", id=f"m{number}") for number in range(20)]
    put(saver, said, 1)
    saver.store.close()
    assert saver.get_tuple(THREAD) is None
    put(saver, said, 1)
    assert read(saver)[:20] == [message.content for message in said]

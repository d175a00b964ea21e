"""Rows of checkpoint namespaces."""

from __future__ import annotations

from pathlib import Path

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint

from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from langchain_tokenmem.storage.checkpoints.tables import namespaces
from langchain_tokenmem.storage.database.database import sqlite_driver


def test_a_put_names_no_indexed_column_of_its_namespace(tmp_path: Path) -> None:
    """SQLite would write the pages of the index anew."""
    statements: list[str] = []
    config = {"configurable": {"thread_id": "t1", "checkpoint_ns": ""}}
    with TranscriptStore(f"sqlite:///{tmp_path / 'store.db'}") as store:
        saver = TokenMemorySaver(store)
        for name in ("first", "second"):
            checkpoint = empty_checkpoint()
            checkpoint["channel_values"] = {"messages": [HumanMessage(name, id=name)]}
            saver.put(config, checkpoint, {"source": "loop"}, {"messages": "1"})
            with store.database.writing("the trace") as connection:
                driver = sqlite_driver(connection)
                assert driver is not None
                driver.set_trace_callback(statements.append)  # the writer's connection stays
        updates = [one for one in statements if one.startswith(f"UPDATE {namespaces.name} SET")]
    written = updates[0].partition(" WHERE ")[0]
    assert "checkpoint_count=2" in written
    indexed = ("namespace_id", "thread_key", "checkpoint_ns_key", "fingerprint")
    assert not [name for name in indexed if f"{name}=" in written]

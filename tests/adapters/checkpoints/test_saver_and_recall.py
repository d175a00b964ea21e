"""Checkpoints, transcripts and recall on one store: the same messages, once, for all three."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_tokenmem import (
    Recall,
    TokenBudget,
    TokenMemory,
    TokenMemoryMiddleware,
    TokenMemorySaver,
    TranscriptStore,
)
from tests.fakes import CharCounter, ListSummarizer
from tests.summarize.models import Scripted

FACT = "The vault code is QUOKKA."


@pytest.fixture
def store(tmp_path):
    with TranscriptStore(f"sqlite:///{tmp_path}/memory.db") as store:
        yield store


def thread(name: str = "t", user: str = "u") -> Any:
    return {"configurable": {"thread_id": name, "user_id": user}}


def agent_of(store: TranscriptStore, *middleware: Any):
    model = Scripted(answer=lambda _messages: "Yes.")
    agent = create_agent(model, middleware=middleware, checkpointer=TokenMemorySaver(store))
    return model, agent


def talk(turns: int, start: int = 0) -> list[BaseMessage]:
    return [
        message
        for n in range(start, start + turns)
        for message in (
            HumanMessage(f"question {n} " + "x " * 40, id=f"h{n}"),
            AIMessage(f"reply {n} " + "y " * 50, id=f"a{n}"),
        )
    ]


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.slow
@pytest.mark.parametrize("first", ["recall", "thread"])
def test_a_checkpointed_thread_is_searched_whoever_came_first(store, first):
    recall = Recall(store) if first == "recall" else None
    _, agent = agent_of(store)
    agent.invoke({"messages": [*talk(3), HumanMessage(FACT, id="fact")]}, thread())
    agent.invoke({"messages": talk(3, 10)}, thread())
    recall = recall or Recall(store)
    hits = recall.search("Where is the QUOKKA?", session_id="t", k=1)
    assert [hit.message_id for hit in hits] == ["fact"]
    assert recall.search("Where is the QUOKKA?", session_id="other") == []
    agent.invoke({"messages": [HumanMessage("And the WOMBAT?", id="late")]}, thread())
    assert recall.search("WOMBAT", session_id="t", k=1)[0].message_id == "late"


def test_memory_recall_and_checkpoints_keep_each_message_once_and_in_order(store):
    memory = TokenMemory(
        TokenBudget(context_window=2_000),
        counter=CharCounter(),
        summarizer=ListSummarizer(),
        recall=Recall(store),
    )
    model, agent = agent_of(store, TokenMemoryMiddleware(memory))
    agent.invoke({"messages": talk(2)}, thread())
    agent.invoke({"messages": [HumanMessage(FACT, id="fact"), *talk(30, 10)]}, thread())
    agent.invoke({"messages": [HumanMessage("Where is the QUOKKA?", id="ask")]}, thread())
    assert FACT in str(model.requests[-1][-1].content)
    held = agent.get_state(thread()).values["messages"]
    assert [m.id for m in store.messages("t")] == [m.id for m in held]
    assert store.messages("t") == held
    assert not any("<recalled_messages>" in str(m.content) for m in held)


def test_a_thread_that_is_deleted_is_found_no_more(store):
    recall = Recall(store)
    _, agent = agent_of(store)
    for name in ("t", "kept"):
        agent.invoke({"messages": [HumanMessage(FACT, id="fact"), *talk(3)]}, thread(name))
    agent.checkpointer.delete_thread("t")
    assert recall.search("QUOKKA", session_id="t") == []
    assert store.messages("t") == []
    assert recall.search("QUOKKA", session_id="kept", k=1)[0].message_id == "fact"


def test_erasing_a_user_deletes_the_checkpoints_too(store, tmp_path):
    recall = Recall(store)
    _, agent = agent_of(store)
    planted = "XYLOPHONE-4711"
    agent.invoke({"messages": [HumanMessage(f"My code is {planted}.", id="s")]}, thread("t", "u"))
    agent.invoke({"messages": [HumanMessage("My code is TUBA-12.", id="s")]}, thread("w", "v"))
    before = agent.get_state(thread("w", "v")).values["messages"]
    counts = recall.erase(user_id="u")
    assert counts["checkpoints"] > 0
    assert counts["messages"] > 0
    assert agent.get_state(thread("t", "u")).values == {}
    assert list(agent.checkpointer.list(thread("t", "u"))) == []
    assert agent.get_state(thread("w", "v")).values["messages"] == before
    assert recall.search("TUBA", session_id="w", k=1)
    store.close()
    assert planted.encode() not in bytes_of(tmp_path)
    assert b"TUBA-12" in bytes_of(tmp_path)


def test_a_copied_thread_is_found_under_its_own_name(store):
    recall = Recall(store)
    _, agent = agent_of(store)
    agent.invoke({"messages": [HumanMessage(FACT, id="fact"), *talk(3)]}, thread())
    agent.checkpointer.copy_thread("t", "copy")
    hit = recall.search("QUOKKA", session_id="copy", k=1)[0]
    assert (hit.session_id, hit.message_id) == ("copy", "fact")

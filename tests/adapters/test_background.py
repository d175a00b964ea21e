"""Summaries behind the reply: no call waits for them but at the hard limit, nothing is lost."""

from __future__ import annotations

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langchain_tokenmem import (
    TokenMemory,
    TokenMemoryChatHistory,
    TokenMemoryMiddleware,
    TranscriptStore,
)
from langchain_tokenmem.errors import StoreError
from tests import fakes
from tests.adapters.integrations import state_of, thread
from tests.fakes import CharCounter, newest_entry
from tests.summarize.models import Scripted


def memory_of(summarizer, **keywords) -> TokenMemory:
    return fakes.memory_of(4_000, summarizer=summarizer, **keywords)


def talk(tokens: int, name: str = "") -> list[BaseMessage]:
    """Return turns of about 110 tokens until they have so many."""
    counter, said = CharCounter(), []
    while counter.count(said).tokens < tokens:
        n = len(said) // 2
        said.append(HumanMessage(f"question {n} " * 18, id=f"{name}h{n}"))
        said.append(AIMessage(f"reply {n} " * 24, id=f"{name}a{n}"))
    return said


def history(store, memory, name="s") -> TokenMemoryChatHistory:
    return TokenMemoryChatHistory(name, memory=memory, store=store)


@pytest.fixture
def store(tmp_path):
    with TranscriptStore(tmp_path / "memory.db") as store:
        yield store


# Stored sessions


def reply(tokens: int) -> AIMessage:
    return AIMessage("An answer. " * (tokens * 4 // 11), id=f"long{tokens}")


def raising_store_error(*_args, **_keywords):
    raise StoreError("The database is locked.")


def test_what_fails_after_the_reply_fails_no_reply(store, caplog):
    store.add("s", talk(2_900))
    store.conversation = raising_store_error
    history(store, memory_of(Scripted())).add_messages([reply(500)])
    assert "is locked" in caplog.text
    assert store.messages("s")[-1].id == reply(500).id


# Threads of graphs


@pytest.mark.slow
def test_without_a_memory_the_agents_own_model_writes_the_summaries():
    def answer(messages):
        notes = "## Goal\nThe user counts questions, and wants a reply to each of them."
        return notes if "at most" in str(messages[-1].content) else "Yes."

    model = Scripted(profile={"max_input_tokens": 4_000}, answer=answer)
    agent = create_agent(model, middleware=[TokenMemoryMiddleware()], checkpointer=InMemorySaver())
    agent.invoke({"messages": talk(30_000)}, thread())
    assert newest_entry(state_of(agent))["model"] == "scripted"

"""Threads are named as in LangGraph: by the text of any id."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import FakeListChatModel
from langgraph.checkpoint.memory import InMemorySaver

from langchain_tokenmem import (
    Recall,
    TokenMemory,
    TokenMemoryMiddleware,
    TokenMemorySaver,
    TranscriptStore,
)
from langchain_tokenmem.errors import ConfigurationError


@pytest.mark.parametrize("thread", ["7", 0, UUID(int=7)])
def test_a_thread_has_one_session_whatever_kind_of_id_names_it(thread: Any) -> None:
    with TranscriptStore("sqlite://") as store:
        middleware = TokenMemoryMiddleware(TokenMemory(8_000, recall=Recall(store)))
        agent = create_agent(
            FakeListChatModel(responses=["In Oslo."]),
            middleware=[middleware],
            checkpointer=TokenMemorySaver(store),
        )
        config: Any = {"configurable": {"thread_id": thread}}
        agent.invoke({"messages": "Where is parcel 4711?"}, config)
        agent.invoke({"messages": "Where?"}, {"configurable": {"thread_id": str(thread)}})
        assert [*store.sessions()] == [str(thread)]
        assert len(store.messages(str(thread))) == 4
        assert middleware.explain(agent, config).messages[-1].content == "Where?"
        agent.checkpointer.delete_thread(thread)
        assert [*store.sessions()] == []


def test_explain_says_what_is_missing_for_it() -> None:
    middleware = TokenMemoryMiddleware()
    alone: Any = create_agent(FakeListChatModel(responses=["a"]), middleware=[middleware])
    kept: Any = create_agent(
        FakeListChatModel(responses=["a"]), middleware=[middleware], checkpointer=InMemorySaver()
    )
    with pytest.raises(
        ConfigurationError, match="has no checkpointer: build it with checkpointer="
    ):
        middleware.explain(alone, {"configurable": {"thread_id": "t1"}})
    with pytest.raises(ConfigurationError, match="The config names no thread: pass"):
        middleware.explain(kept, {})

"""The memory in an agent of `deepagents`, which brings a summarizer of its own."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver

from langchain_tokenmem import TokenMemory, TokenMemoryMiddleware
from tests.contract.chats import Talker, long_turns, texts

deepagents = pytest.importorskip("deepagents")

WINDOW = 24_000
PAGE = "The shipyard closes at five. " * 700


PROFILE = {"max_input_tokens": WINDOW, "max_output_tokens": 2_000}
"""Of a model with a small window, which deepagents' summarizer goes by, too."""


def talk(
    name: str, *, turns: int = 40, page: str = "", **more: Any
) -> tuple[TokenMemory, Talker, list[BaseMessage]]:
    """Return the memory of a deep agent, its model and its messages after some turns."""
    memory, model = TokenMemory(WINDOW, background=False), Talker(profile=PROFILE)
    agent = deepagents.create_deep_agent(
        model,
        middleware=[TokenMemoryMiddleware(memory, name=name)],
        checkpointer=InMemorySaver(),
        **more,
    )
    config: Any = {"configurable": {"thread_id": "t"}}
    said: list[BaseMessage] = []
    files = {"/AGENTS.md": {"content": page, "encoding": "utf-8"}} if page else {}
    for question in long_turns(turns, words=600):
        given: dict[str, Any] = {"messages": question, "files": files}
        said = agent.invoke(given, config)["messages"]
    return memory, model, said


def test_by_its_name_the_memory_takes_the_place_of_the_summarizer(caplog):
    memory, model, said = talk("SummarizationMiddleware")
    assert "Another summarizer" not in caplog.text
    assert "<conversation_summary" in texts(model.requests[-1])
    assert not [m for m in said if m.additional_kwargs.get("lc_source") == "summarization"]
    assert len(said) == 80
    tools = model.keywords[-1]["tools"]
    for request in model.requests:
        assert memory.count(request, tools=tools).tokens <= memory.budget.limit


def test_a_second_summarizer_is_reported_once(caplog):
    caplog.set_level(logging.WARNING)
    talk("TokenMemoryMiddleware")
    assert caplog.text.count("Another summarizer in the agent's middleware") == 1


def test_what_the_memory_files_add_behind_is_counted():
    memory, model, _ = talk("SummarizationMiddleware", turns=30, page=PAGE, memory=["/AGENTS.md"])
    assert PAGE[:200] in model.requests[-1][0].text
    tools = model.keywords[-1]["tools"]
    for request in model.requests:
        assert memory.count(request, tools=tools).tokens <= memory.budget.limit

"""Modes across real restarts: each step of a session is a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

STEP = """
import sys
from langchain_core.messages import AIMessage, HumanMessage
from langchain_tokenmem import TokenBudget, TokenMemory, TokenMemoryChatHistory, TranscriptStore

url, mode, *texts = sys.argv[1:]
memory = TokenMemory(TokenBudget(context_window=8_000), mode="code")
with TranscriptStore(url) as store:
    history = TokenMemoryChatHistory("s1", memory=memory, store=store)
    if mode:
        history.set_mode(mode)
    for text in texts:
        history.add_messages([HumanMessage(text)])
        shown = history.messages[-1].content
        history.add_messages([AIMessage("Noted.")])
    print(shown)
"""
GRAPH = """
import sys
from langchain.agents import create_agent
from langchain_core.language_models import FakeListChatModel
from langchain_tokenmem import (
    TokenBudget, TokenMemory, TokenMemoryMiddleware, TokenMemorySaver, TranscriptStore,
)

url, mode, *texts = sys.argv[1:]
memory = TokenMemory(TokenBudget(context_window=8_000), mode="code")
seen = []

class Model(FakeListChatModel):
    def _call(self, messages, *args, **kwargs):
        seen.append(messages)
        return super()._call(messages, *args, **kwargs)

with TranscriptStore(url) as store:
    agent = create_agent(
        Model(responses=["Noted."]),
        middleware=[TokenMemoryMiddleware(memory)],
        checkpointer=TokenMemorySaver(store),
    )
    chosen = {"memory_mode": mode} if mode else {}
    for text in texts:
        agent.invoke({"messages": text}, {"configurable": {"thread_id": "t1", **chosen}})
    print(seen[-1][-1].content)
"""
TALK = (
    "We decided to use SQLite because it is simple.",
    "Please fix the login in src/app.py now.",
)


def run(code: str, url: str, mode: str, *texts: str) -> str:
    """Return the newest question as the model sees it, asked in a process of its own."""
    line = [sys.executable, "-c", code, url, mode, *texts]
    done = subprocess.run(line, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("code", [STEP, GRAPH], ids=["history", "agent"])
def test_code_reasoning_code_across_processes_loses_nothing(tmp_path, code):
    url = f"sqlite:///{tmp_path}/memory.db"
    run(code, url, "", *TALK)
    second = run(code, url, "reasoning", "What did we say?")
    assert '<working_notes mode="reasoning">' in second
    assert "#1 use SQLite. Rationale: it is simple" in second
    third = run(code, url, "code", "Go on")
    assert '<working_notes mode="code">' in third
    assert "Task: Please fix the login in src/app.py" in third
    assert "Files: named src/app.py" in third

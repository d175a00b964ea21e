"""A process whose summarizer takes its time; tests start several, and kill one.

It prints `ready`, waits for a line, takes ten turns' views 0.1 s apart, and prints `asked` whenever
its summarizer is called, and at the end `done`.

Run: python summary_worker.py URL SESSION SLEEP_S LEASE_S
"""

from __future__ import annotations

import subprocess
import sys
import time

import processes
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_tokenmem import TokenBudget, TokenMemory, TokenMemoryChatHistory, TranscriptStore
from langchain_tokenmem.types import BackgroundSummaries

BUDGET = TokenBudget(context_window=4_000)


def due(memory: TokenMemory) -> list[BaseMessage]:
    """Return turns between `summarize_at` and the hard limit."""
    said: list[BaseMessage] = []
    while memory.count(said).tokens <= memory.budget.summarize_tokens:
        n = len(said) // 2
        said += [
            HumanMessage(f"question {n} about the delivery " * 8, id=f"h{n}"),
            AIMessage(f"reply {n} on the delivery " * 10, id=f"a{n}"),
        ]
    assert memory.count(said).tokens < memory.budget.limit
    return said


def start(url: str, session: str, *, sleep_s: float, lease_s: float) -> subprocess.Popen[str]:
    """Start a worker on the same package that this process uses; return it when it is ready."""
    worker = processes.start(__file__, url, session, sleep_s, lease_s)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "ready\n", worker.communicate()[1]
    return worker


def go(worker: subprocess.Popen[str]) -> None:
    """Let a worker begin."""
    assert worker.stdin is not None
    worker.stdin.write("go\n")
    worker.stdin.flush()


def main() -> None:
    url, session, sleep_s, lease_s = sys.argv[1:]

    def slow(messages: list[BaseMessage]) -> str:
        print("asked", flush=True)
        time.sleep(float(sleep_s))
        return f"The user asks about the delivery, {len(messages)} messages long."

    with (
        TranscriptStore(url, shared=True) as store,
        TokenMemory(
            BUDGET, summarizer=slow, background=BackgroundSummaries(timeout_s=float(lease_s))
        ) as memory,
    ):
        memory.count([HumanMessage("loads the vocabulary")])
        print("ready", flush=True)
        sys.stdin.readline()
        for _ in range(10):
            view = TokenMemoryChatHistory(session, memory=memory, store=store).view()
            assert view.left_out == 0
            time.sleep(0.1)
    print("done", flush=True)


if __name__ == "__main__":
    main()

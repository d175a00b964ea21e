"""Imports a SQL history into a store, makes the first turn, and prints what that took.

Usage: python import_worker.py SOURCE_URL STORE_URL
"""

from __future__ import annotations

import json
import resource
import sys
import time

from langchain_core.language_models import FakeListChatModel

from langchain_tokenmem import TokenBudget, TokenMemory, TranscriptStore, with_token_memory
from langchain_tokenmem.adapters.migration.community import sql_histories
from langchain_tokenmem.storage.imports.sources import history_engine

MAX_WAIT_S = 30.0


def most_memory() -> int:
    """Return the most memory that the process had so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1_000


def main() -> None:
    """Do it."""
    source, target = sys.argv[1:]
    memory = TokenMemory(TokenBudget(context_window=8_000), max_wait_s=MAX_WAIT_S)
    with history_engine(source) as engine, TranscriptStore(target) as store:
        ((name, history),) = sql_histories(engine)
        model = FakeListChatModel(responses=["Yes."])
        chain = with_token_memory(model, memory, store)
        config = {"configurable": {"session_id": "warm"}}
        chain.invoke("Is it there?", config)
        store.import_history([("human", "hi")], "warm-2")
        before, cpu, wall = most_memory(), time.process_time(), time.perf_counter()
        report = store.import_history(
            history, name, progress=lambda done: print(done, file=sys.stderr, flush=True)
        )
        figures = {
            "added": report.added,
            "known": report.known,
            "cpu_s": time.process_time() - cpu,
            "wall_s": time.perf_counter() - wall,
            "grown_mb": most_memory() - before,
        }
        begun = time.perf_counter()
        chain.invoke("Is it there?", {"configurable": {"session_id": name}})
        print(json.dumps({**figures, "turn_s": time.perf_counter() - begun}), flush=True)


if __name__ == "__main__":
    main()

"""Cost of a turn in the chat history, as a ratio against LangChain's `trim_messages`.

Run: python benchmarks/history_cost.py [--small 1000] [--large 10000]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, trim_messages
from langchain_core.messages.utils import count_tokens_approximately

from langchain_tokenmem import TokenBudget, TokenMemory, TokenMemoryChatHistory, TranscriptStore
from langchain_tokenmem.tokens.encodings import find_encoding

WINDOW = 8_000
CYCLE = 60
WORDS = "the order number is noted and the customer asks about the delivery on friday morning "


def turn(number: int) -> list[BaseMessage]:
    """Return one turn of about 1.2 kB."""
    return [
        HumanMessage(f"{number}: {WORDS * 4}", id=f"h{number}"),
        AIMessage(f"{number}: {WORDS * 10}", id=f"a{number}"),
    ]


def median_seconds(run: Callable[[], object], times: int) -> float:
    """Return the median time of `times` runs, in seconds."""
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        run()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def grow(store: TranscriptStore, memory: TokenMemory, marks: list[int]) -> dict[int, float]:
    """Fill a session turn by turn; return what a view costs at each mark, in seconds.

    It is the median of the last turns before the mark, which are more than one cycle between two
    compactions, each read by a history object of its own as LangChain's wrapper does.
    """
    costs, taken = {}, []
    for number in range(max(marks) // 2):
        history = TokenMemoryChatHistory("s", memory=memory, store=store)
        started = time.perf_counter()
        history.view()
        taken.append(time.perf_counter() - started)
        history.add_messages(turn(number))
        if 2 * (number + 1) in marks:
            costs[2 * (number + 1)] = statistics.median(taken[-CYCLE:])
    return costs


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", type=int, default=1_000)
    parser.add_argument("--large", type=int, default=10_000)
    options = parser.parse_args()
    memory = TokenMemory(TokenBudget(context_window=WINDOW))
    with (
        tempfile.TemporaryDirectory() as folder,
        TranscriptStore(f"sqlite:///{Path(folder) / 'memory.db'}") as store,
    ):
        costs = grow(store, memory, [options.small, options.large])
        everything = store.messages("s")
    encoding = find_encoding("o200k_base")

    def exactly(messages: list[BaseMessage]) -> int:
        return sum(4 + len(encoding.encode_ordinary(str(m.content))) for m in messages)

    peers = {
        name: median_seconds(
            partial(
                trim_messages,
                everything,
                max_tokens=WINDOW,
                token_counter=counter,
                strategy="last",
            ),
            3,
        )
        for name, counter in (("tiktoken", exactly), ("approximate", count_tokens_approximately))
    }
    small, large = costs[options.small], costs[options.large]
    print(f"chat history, fresh object, {options.small:,} messages: {small * 1e3:9.2f} ms")
    print(f"chat history, fresh object, {options.large:,} messages: {large * 1e3:9.2f} ms")
    print(f"  ratio {large / small:.2f} (promised: at most 1.5)")
    for name, seconds in peers.items():
        print(f"trim_messages, {name} counter, {options.large:,}: {seconds * 1e3:9.2f} ms")
        print(f"  {seconds / large:.1f} times its cost")
    print("  (promised: at least 20 times with tiktoken, at least 1 with the approximate counter)")


if __name__ == "__main__":
    main()

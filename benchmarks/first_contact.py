"""First contact with a long history: the wait of the first call, and the cost of catching up.

A history of `--sizes` messages (10,000 and 60,000) was made before the memory came to it. The first
call is made over a graph's thread, whose state holds all messages, and over a stored session. It is
served from the newest messages, with the others left out, and waits for no summary; behind it the
summarizer takes the others in, a part at a time. Then a second call has the summary.

Promised: the first call takes at most a second of CPU for 20,000 messages, its view fits, and a
message of the longest history costs at most twice as much as one of the shortest.

Run: python benchmarks/first_contact.py [--sizes 10000 60000]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_tokenmem import TokenBudget, TokenMemory, TranscriptStore
from langchain_tokenmem.state import new_state
from langchain_tokenmem.turns.conversation import Conversation, TurnRequest, TurnResult
from langchain_tokenmem.turns.graph_thread import GraphThread
from langchain_tokenmem.turns.stored_session import StoredSession
from langchain_tokenmem.turns.turn import take_turn

BUDGET = TokenBudget(8_000)
WORDS = "the order number is noted and the customer asks about the delivery on friday morning "
PROMISED_RATIO = 2.0
FIRST_CALL_S = 1 / 20_000


@dataclass(frozen=True)
class Contact:
    """Figures of a first contact.

    Attributes:
        messages: How many messages the history has.
        first_s: Seconds of CPU of the first call, in its own thread.
        behind_s: Seconds of CPU from its start until all summaries were there.
        second_s: Seconds of the second call.
        left_out: Messages that the first view left out.
        left_out_then: Messages that the second view left out.
        covered: Messages that the summary covers then.
    """

    messages: int
    first_s: float
    behind_s: float
    second_s: float
    left_out: int
    left_out_then: int
    covered: int

    @property
    def per_message_s(self) -> float:
        """Seconds of catching up for each message."""
        return self.behind_s / self.messages


def history(size: int) -> list[BaseMessage]:
    """Return a history of so many messages, of about 40 tokens each."""
    messages: list[BaseMessage] = []
    for n in range(size // 2):
        order = f"order {4711 + n} for {n % 977}.50 EUR in file src/orders/o{n}.py"
        messages.append(HumanMessage(f"{n}: please check {order}. {WORDS}", id=f"h{n}"))
        messages.append(AIMessage(f"{n}: {order} ships on day {n % 30}. {WORDS * 2}", id=f"a{n}"))
    messages.append(HumanMessage("When does the last one ship?", id="last"))
    return messages


def contact(memory: TokenMemory, conversation: Conversation, size: int) -> Contact:
    """Make the first call, wait until the memory has caught up, and make the second one."""
    started, first_s = time.process_time(), -time.thread_time()
    first = take_turn(conversation, TurnRequest())
    first_s += time.thread_time()
    assert first.view.usage.input_tokens <= memory.budget.limit
    memory.background_summaries.wait(3_600)
    behind_s = time.process_time() - started
    if isinstance(conversation, GraphThread):
        conversation = replace(conversation, state=first.state)
    started = time.perf_counter()
    second: TurnResult = take_turn(conversation, TurnRequest())
    second_s = time.perf_counter() - started
    summary = second.state["summary"]
    return Contact(
        messages=size,
        first_s=first_s,
        behind_s=behind_s,
        second_s=second_s,
        left_out=first.view.left_out,
        left_out_then=second.view.left_out,
        covered=summary["covered"] if summary else 0,
    )


def in_graph(size: int) -> Contact:
    """Return the first contact of a graph's thread."""
    with TokenMemory(BUDGET) as memory:
        memory.count([HumanMessage("hi")])  # the vocabulary is loaded once a process
        thread = GraphThread(memory, history(size), new_state(), key=("t", "", "memory"))
        return contact(memory, thread, size)


def in_store(size: int) -> Contact:
    """Return the first contact of a stored session."""
    with (
        tempfile.TemporaryDirectory() as folder,
        TranscriptStore(f"sqlite:///{Path(folder) / 'memory.db'}") as store,
        TokenMemory(BUDGET) as memory,
    ):
        memory.count([HumanMessage("hi")])
        store.add("s", history(size))
        return contact(memory, StoredSession(memory, store, "s"), size)


def main() -> None:
    """Print the table; a broken promise ends with an error."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 60_000])
    options = parser.parse_args()
    broken = []
    for name, make in {"graph": in_graph, "stored session": in_store}.items():
        found = [make(size) for size in options.sizes]
        for one in found:
            print(
                f"{name}, {one.messages:,} messages: first call {one.first_s:.2f} s with "
                f"{one.left_out:,} left out, all caught up after {one.behind_s:.1f} s of CPU "
                f"({one.per_message_s * 1e3:.2f} ms a message), second call {one.second_s:.2f} s "
                f"with {one.covered:,} covered and {one.left_out_then:,} left out",
                flush=True,
            )
            if one.first_s > FIRST_CALL_S * one.messages:
                broken.append(f"{name}: the first call took {one.first_s:.2f} s")
            if one.left_out_then:
                broken.append(f"{name}: {one.left_out_then:,} messages were never summarized")
        ratio = found[-1].per_message_s / found[0].per_message_s
        print(f"{name}: a message of the longest costs {ratio:.2f} of one of the shortest history")
        if ratio > PROMISED_RATIO:
            broken.append(f"{name}: the cost of a message grows, {ratio:.2f} times")
    if broken:
        raise SystemExit("broken: " + "; ".join(broken))


if __name__ == "__main__":
    main()

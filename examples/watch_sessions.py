"""Who was compacted when, and what it cost: twenty sessions at once, watched from outside.

Ten agents and ten chains share one memory and talk in threads. The watcher has nothing but the
public callbacks and the log; at the end its sums are compared with the states of the sessions.
Runs offline, with scripted models.

Run: python examples/watch_sessions.py
"""

from __future__ import annotations

import logging
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from threading import Lock
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import FakeListChatModel, FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langchain_core.prompts import ChatPromptTemplate

from langchain_tokenmem import (
    TokenMemory,
    TokenMemoryMiddleware,
    TokenMemorySaver,
    TranscriptStore,
    with_token_memory,
)
from langchain_tokenmem.events import MemoryCallbacks, MemoryEvent

SESSIONS = 20
TURNS = 10
PRICE = 0.15e-6, 0.60e-6  # dollars for a token that the summarizer reads, and that it writes
LINE = re.compile(r"(?:thread|session) (\S+): ([\d,]+) → ([\d,]+) tokens, .*\((\w+)\)")


class Watcher(MemoryCallbacks, logging.Handler):
    """Notes each change twice: from the callback, and from the line of the log."""

    def __init__(self) -> None:
        logging.Handler.__init__(self, logging.INFO)
        self.changes: list[tuple[datetime, MemoryEvent]] = []
        self.logged: Counter[tuple[str, str, str]] = Counter()
        self.noting = Lock()

    def on_memory_end(self, event: MemoryEvent) -> None:
        """Note a change with the time at which it happens."""
        if event.is_change:
            with self.noting:
                self.changes.append((datetime.now(UTC), event))

    def emit(self, record: logging.LogRecord) -> None:
        """Note the line of a change: the session, and its tokens before and after."""
        if found := LINE.fullmatch(record.getMessage()):
            with self.noting:
                self.logged[found[1], found[2], found[3]] += 1


def talkers(memory: TokenMemory, store: TranscriptStore) -> dict[str, tuple[Any, Any]]:
    """Return for each session what says a turn, and what reads its state."""
    model = FakeListChatModel(responses=["That is noted, and it will be looked at soon. " * 9])
    middleware, saver = TokenMemoryMiddleware(memory), TokenMemorySaver(store)
    agent = create_agent(model, middleware=[middleware], checkpointer=saver)
    prompt = ChatPromptTemplate([("placeholder", "{history}"), ("human", "{input}")])
    keys: dict[str, Any] = {"input_messages_key": "input", "history_messages_key": "history"}
    chain = with_token_memory(prompt | model, memory, store, **keys)

    def of_agent(config: Any) -> tuple[Callable[[str], Any], Callable[[], Any]]:
        return (
            lambda text: agent.invoke({"messages": text}, config),
            lambda: agent.get_state(config).values["token_memory"][middleware.name],
        )

    def of_chain(config: Any, name: str) -> tuple[Callable[[str], Any], Callable[[], Any]]:
        return (
            lambda text: chain.invoke({"input": text}, config),
            lambda: store.state(name, user_id=config["configurable"]["user_id"]).state,
        )

    found: dict[str, tuple[Any, Any]] = {}
    for number in range(SESSIONS // 2):
        user = {"user_id": f"user-{number}"}
        name, other = f"agent-{number}", f"chain-{number}"
        found[name] = of_agent({"configurable": {"thread_id": name, **user}})
        found[other] = of_chain({"configurable": {"session_id": other, **user}}, other)
    return found


def main() -> None:
    """Let twenty sessions talk at once, and say what the watcher knows of them."""
    usage = {"input_tokens": 900, "output_tokens": 60, "total_tokens": 960}
    answer = AIMessage("- Orders were noted; all will be looked at soon.", usage_metadata=usage)
    watcher, log = Watcher(), logging.getLogger("langchain_tokenmem.events")
    memory = TokenMemory(
        1_600,
        summarizer=FakeMessagesListChatModel(responses=[answer]),
        background=False,
        callbacks=[watcher],
    )
    log.addHandler(watcher)
    log.setLevel(logging.INFO)

    def talk(number: int, say: Callable[[str], Any]) -> None:
        for turn in range(TURNS + number % 4):
            say(f"Please note order {4_000 + turn} of shelf {number}. " * 8)

    with TranscriptStore("sqlite://", shared=True) as store:
        sessions = talkers(memory, store)
        with ThreadPoolExecutor(SESSIONS) as pool:
            says = (say for say, _ in sessions.values())
            list(pool.map(talk, range(SESSIONS), says))
        states = {name: read() for name, (_, read) in sessions.items()}
    log.removeHandler(watcher)

    spent: dict[str, Counter[str]] = defaultdict(Counter)
    for at, event in watcher.changes:
        name = event.thread or event.session or ""
        spent[name].update(
            compactions=event.kind == "shorten",
            summaries=event.kind == "fold",
            calls=event.calls,
            input_tokens=event.input_tokens,
            output_tokens=event.output_tokens,
        )
        cost = event.input_tokens * PRICE[0] + event.output_tokens * PRICE[1]
        print(f"{at:%H:%M:%S} {event.user:<7} {event} ${cost:.6f}")
    keys = ("compactions", "summaries", "calls", "input_tokens", "output_tokens")
    wrong = [
        n for n, state in states.items() if any(state["totals"][k] != spent[n][k] for k in keys)
    ]
    lines = Counter(
        (event.thread or event.session or "", f"{event.tokens_before:,}", f"{event.tokens_after:,}")
        for _, event in watcher.changes
    )
    print(f"{len(spent)} of {len(states)} sessions were compacted, {len(watcher.changes)} changes.")
    print(
        f"Sums that differ from the state: {len(wrong)}; log and callbacks agree: "
        f"{lines == watcher.logged}"
    )


if __name__ == "__main__":
    main()

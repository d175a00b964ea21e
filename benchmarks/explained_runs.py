"""What the memory says of recorded agents, compared with what it did.

An agent of `create_agent` plays each recording: its model and its tools answer as recorded.

- **calls**: for every model call `middleware.explain`, read afterwards from the checkpoints by a
  new agent, gives the messages that the model was sent: `wrong` is how many it does not.
- **lines**: each line of the running summary in the page opens messages that hold its words:
  `wrong` is how many lines open none, or hold a word of four letters that these do not.
- **threads**: a listener with nothing but `MemoryCallbacks` knows how many messages of a thread are
  summarized in its last request: `wrong` is how many it counts differently than the state does.

Run: python benchmarks/explained_runs.py FILE... [--runs 40] [--window 8000]
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from _price_recordings import Recording, read_recordings, sampled
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from langchain_core.messages import message_to_dict as plain
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import PrivateAttr

from langchain_tokenmem import TokenMemory, TokenMemoryMiddleware, TranscriptStore
from langchain_tokenmem.cli.calls import session_calls
from langchain_tokenmem.cli.stored_sessions import StoredSessions
from langchain_tokenmem.events import MemoryCallbacks, MemoryEvent

_WORD = re.compile(r"[^\W\d_]{4,}")
_ESCAPED = re.compile(r"\\+u([0-9a-f]{4})")
"""A letter as JSON writes it: a result that is JSON inside of JSON has its words so."""
_FRAME = {
    *("user", "assistant", "correction", "found", "nothing", "value", "values", "records"),
    *(
        "lines",
        "characters",
        "more",
        "failed",
        "failing",
        "times",
        "then",
        "passed",
        "open",
        "done",
    ),
}
"""Words of a line that say what it is, not what was said."""


class Replayed(BaseChatModel):
    """A model that answers as recorded, and keeps what it was sent."""

    answers: list[AIMessage]
    _requests: list[list[BaseMessage]] = PrivateAttr(default_factory=list)

    @property
    def requests(self) -> list[list[BaseMessage]]:
        return self._requests

    @property
    def _llm_type(self) -> str:
        return "replayed"

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self._requests.append(messages)
        answer = self.answers[len(self._requests) - 1]
        return ChatResult(generations=[ChatGeneration(message=answer)])


class Listener(MemoryCallbacks):
    """Counts what is summarized, by thread: so far, and in the newest request."""

    def __init__(self) -> None:
        self.summarized: Counter[str | None] = Counter()
        self.shown: Counter[str | None] = Counter()

    def on_memory_end(self, event: MemoryEvent) -> None:
        if event.kind == "fold":
            self.summarized[event.thread] += event.summarized
        elif event.kind == "view":
            self.shown[event.thread] = self.summarized[event.thread]


def turns_of(messages: Sequence[BaseMessage]) -> Iterator[list[BaseMessage]]:
    """Yield each human message with what follows; stop where no agent would answer so."""
    turn: list[BaseMessage] = []
    open_calls: set[str | None] = set()
    for message in messages:
        if message.type == "human":
            if open_calls or (turn and turn[-1].type != "ai"):
                return
            if turn:
                yield turn
            turn = [message]
        elif turn and isinstance(message, AIMessage):
            if open_calls or message.invalid_tool_calls or (turn[-1].type == "ai"):
                return
            open_calls = {call["id"] for call in message.tool_calls}
            turn.append(message)
        elif turn and isinstance(message, ToolMessage) and message.tool_call_id in open_calls:
            open_calls.discard(message.tool_call_id)
            turn.append(message)
        elif turn:
            return
    if turn and turn[-1].type == "ai" and not open_calls:
        yield turn


def tools_of(messages: Sequence[BaseMessage]) -> list[StructuredTool]:
    """Return the tools that were called; they answer as they did."""
    results = {m.tool_call_id: m.text for m in messages if isinstance(m, ToolMessage)}
    queued: dict[tuple[str, str], list[str]] = defaultdict(list)
    for message in messages:
        for call in getattr(message, "tool_calls", ()):
            key = call["name"], json.dumps(call["args"], sort_keys=True)
            queued[key].append(results.get(call["id"], ""))

    def made(name: str) -> StructuredTool:
        def answer(**args: Any) -> str:
            return queued[name, json.dumps(args, sort_keys=True)].pop(0)

        schema = {"type": "object", "properties": {}, "additionalProperties": True}
        return StructuredTool(name=name, description=name, args_schema=schema, func=answer)

    return [made(name) for name in sorted({name for name, _ in queued})]


def played(recording: Recording, window: int) -> Counter[str]:
    """Return what was compared in one run, and what was wrong."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    messages = recording.messages()
    turns = [*turns_of(messages)]
    messages = [message for turn in turns for message in turn]
    system = next((m.text for m in messages if isinstance(m, SystemMessage)), None)
    tools, listener = tools_of(messages), Listener()
    model = Replayed(answers=[m for m in messages if isinstance(m, AIMessage)])
    saver = InMemorySaver()
    config: Any = {"configurable": {"thread_id": recording.name}}

    def agent(memory: TokenMemory) -> tuple[Any, TokenMemoryMiddleware]:
        middleware = TokenMemoryMiddleware(memory)
        options: dict[str, Any] = {"system_prompt": system, "checkpointer": saver}
        return create_agent(model, tools, middleware=[middleware], **options), middleware

    graph, _ = agent(TokenMemory(window, callbacks=[listener]))
    found: Counter[str] = Counter()
    for turn in turns:
        graph.invoke({"messages": [turn[0]]}, {**config, "recursion_limit": 10_000})
    sent = [*model.requests]
    state = graph.get_state(config).values
    memories = state["token_memory"].values()
    covered = sum(one["summary"]["covered"] for one in memories if one["summary"])
    found["threads"] += bool(covered)
    found["threads wrong"] += covered != listener.shown[recording.name]
    graph, middleware = agent(TokenMemory(window))
    for number, request in enumerate(sent, 1):
        explained = middleware.explain(graph, config, call=number)
        found["calls"] += 1
        found["calls wrong"] += [*map(plain, explained.messages)] != [*map(plain, request)]
    found["folded"] += bool(explained.hidden.summarized)
    return found + lines_opened(messages, window)


def lines_opened(messages: Sequence[BaseMessage], window: int) -> Counter[str]:
    """Return how many lines of the summary the page shows, and how many open other words."""
    found: Counter[str] = Counter()
    with TranscriptStore("sqlite://", shared=True) as store:
        store.add("run", messages)
        known = session_calls(StoredSessions(store), "run", window)
        last = known.facts(known.call(None))
    for item in last.items:
        for line, places in item["lines"]:
            shown = words(re.sub(r"\[[0-9a-f]{6,}\]", " ", line)) - _FRAME
            if not line.strip() or line.startswith(("<", "[Notes")) or not shown:
                continue
            opened = " ".join(
                json.dumps(plain(known.messages[at]), ensure_ascii=False) for at in places
            )
            opened = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), opened)
            found["lines"] += 1
            lacking = [word for word in shown if word not in opened.lower()]
            found["lines wrong"] += bool(lacking)
            if lacking:
                print(f"{sorted(lacking)} in {line[:200]!r}", file=sys.stderr)
    return found


def words(text: str) -> set[str]:
    """Return the words of four letters and more, in small letters."""
    return {word.lower() for word in _WORD.findall(text)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--window", type=int, default=8_000)
    given = parser.parse_args()
    every = [one for file in given.files for one in read_recordings(file)]
    playable = [one for one in every if sum(map(len, turns_of(one.messages()))) >= 8]
    chosen = sampled(playable, given.runs, seed=7)
    whole: Counter[str] = Counter()
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for one in pool.map(partial(played, window=given.window), chosen):
            whole += one
    print(f"{len(chosen)} of {len(playable)} playable runs, window {given.window:,}")
    for name in ("calls", "lines", "threads"):
        print(f"{name:<8} {whole[name]:>6,}   wrong {whole[f'{name} wrong']:>4,}")
    print(f"runs with a summary: {whole['folded']}")


if __name__ == "__main__":
    main()

"""Counters, summarizers and readers of a state's log for tests: small, exact, deterministic."""

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langchain_tokenmem import TokenMemory
from langchain_tokenmem.core.inserted_text import LEFT_OUT
from langchain_tokenmem.state import MemoryState, SummaryEntry
from langchain_tokenmem.summarize.base import Summary, SummaryRequest
from langchain_tokenmem.tokens.counters import TokenCount


class CharCounter:
    """Four characters are a token; a frame of four tokens around each message."""

    id = "chars"
    method = "exact"

    def text(self, text: str) -> int:
        return math.ceil(len(text) / 4)

    def message(self, message: BaseMessage) -> int:
        content = message.content
        is_text = isinstance(content, str)
        # Text must not count six times as much where it stands in a block.
        said = content if is_text else json.dumps(content, default=str, ensure_ascii=False)
        total = 4 + self.text(said)
        if isinstance(message, AIMessage):
            total += sum(3 + self.text(json.dumps(call["args"])) for call in message.tool_calls)
        if isinstance(message, ToolMessage):
            total += self.text(message.tool_call_id)
        return total

    def tools(self, tools) -> int:
        return sum(self.text(json.dumps(tool, default=str)) for tool in tools or ())

    def count(self, messages, *, tools=None) -> TokenCount:
        total = 3 + sum(map(self.message, messages)) + self.tools(tools)
        return TokenCount(total, "exact", 0.0)


class ListSummarizer:
    """Keeps the first words of every message; remembers what it was asked."""

    is_quick = True

    def __init__(self) -> None:
        self.requests: list[SummaryRequest] = []

    def wants(self, messages) -> bool:
        return True

    def summarize(self, request: SummaryRequest) -> Summary:
        self.requests.append(request)
        lines = [str(m.content)[:40] for m in request.messages]
        text = "\n".join(line for line in lines if line.strip()) or "nothing"
        while request.count_text(text) > request.max_tokens:
            text = text[: int(len(text) * 0.9)]
        return Summary(text or ".", "list", "list-1")

    async def asummarize(self, request: SummaryRequest) -> Summary:
        return self.summarize(request)


def memory_of(window: int = 2_000, **options: Any) -> TokenMemory:
    """Return a memory that counts four characters as a token, and summarizes at once."""
    options.setdefault("summarizer", ListSummarizer())
    return TokenMemory(window, counter=CharCounter(), **options)


def talk(turns: int, start: int = 0, words: int = 10) -> list[BaseMessage]:
    """Return turns of a question and an answer, with ids `h0`, `a0`, `h1`, ..."""
    return [
        message
        for n in range(start, start + turns)
        for message in (
            HumanMessage(f"question {n} " * words, id=f"h{n}"),
            AIMessage(f"answer {n} " * words, id=f"a{n}"),
        )
    ]


def tool_round(number: int, result: Any, said: str = "", **args: Any) -> list[BaseMessage]:
    """Return a call of `read` and its result, with ids `a0`, `c0` and `t0`."""
    call = {"name": "read", "args": args or {"n": number}, "id": f"c{number}"}
    return [
        AIMessage(said, tool_calls=[call], id=f"a{number}"),
        ToolMessage(result, tool_call_id=f"c{number}", id=f"t{number}"),
    ]


def called(key: Any, name: str, args: Any, result: Any = "ok", **fields: Any) -> list[BaseMessage]:
    """Return a call and its result, with ids `call1`, `c1` and `result1` for the key 1."""
    one = {"name": name, "args": args, "id": f"c{key}"}
    return [
        AIMessage("", id=f"call{key}", tool_calls=[one]),
        ToolMessage(result, id=f"result{key}", tool_call_id=f"c{key}", **fields),
    ]


def replacing(new: str, *words: str) -> Callable[[list[BaseMessage]], list[BaseMessage]]:
    """Return a `before_store` that puts something new in the place of words."""
    found = re.compile("|".join(map(re.escape, words)))

    def before_store(messages: list[BaseMessage]) -> list[BaseMessage]:
        texts = [found.sub(new, str(message.content)) for message in messages]
        pairs = zip(messages, texts, strict=True)
        return [message.model_copy(update={"content": text}) for message, text in pairs]

    return before_store


def printed_by(code: str, *options: str, **environment: str) -> str:
    """Return what a fresh interpreter prints, which must end well."""
    run = [sys.executable, *options, "-c", code]
    done = subprocess.run(  # noqa: S603  our own interpreter and text
        run, check=False, capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def entries_of(state: MemoryState | None) -> list[SummaryEntry]:
    """Return the entries of the running summary, oldest first; none where there is no summary."""
    return state["summary"]["entries"] if state and state["summary"] else []


def newest_entry(state: MemoryState) -> SummaryEntry:
    """Return the entry that was written last."""
    return entries_of(state)[-1]


def log_text(state: MemoryState) -> str:
    """Return the texts of all entries, oldest first."""
    return "\n\n".join(entry["text"] for entry in entries_of(state))


def words_of(messages: Iterable[BaseMessage]) -> list[str]:
    """Return the contents without the references of messages, which random ids give."""
    return [re.sub(r"[0-9a-f]{6}-[0-9a-f]{6}", "a-z", str(one.content)) for one in messages]


def own_words(message: BaseMessage) -> str:
    """Return what a message itself says in a view: its text without the blocks of the log."""
    content = message.content
    blocks = [content] if isinstance(content, str) else [str(part.get("text")) for part in content]
    return "\n\n".join(b for b in blocks if "<conversation_summary" not in b and b != LEFT_OUT)

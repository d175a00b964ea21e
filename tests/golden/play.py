"""A recording played, call by call, through each integration of the contract tests.

Before every recorded answer the integration is given what was said since the last one, and the
model gives the recorded answer. A summarizing model writes its summaries in the turn.
"""

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver

from langchain_tokenmem import Recall, TokenBudget, TokenMemory, TranscriptStore
from langchain_tokenmem.types import TokenUsage
from tests.contract.chats import CHATS, ByHand, Chat, History, Setting, Talker
from tests.golden.recordings import Recording, pinned_now

# The log names the integration in front of a warning; that is no part of the warning.
_SPEAKER = re.compile(r"^((Session|Thread) '[^']*'|\w+Node|\w+Middleware): ")

_LITERALS = re.compile(r"[\w@./-]*\d[\w@./:-]*|\w+(?:[./_@-]\w+)+")
_WORDS = re.compile(r"at most (\d+) words")
_BLOCKS = re.compile(r"<(earlier_notes|transcript|notes)>\n(.*?)\n</\1>", re.DOTALL)
_CHARACTERS_PER_WORD = 3


@dataclass(frozen=True)
class Call:
    """What one model call led to.

    A history leaves the system text to the application. Where an integration does not pass on tools
    or does not report its numbers and warnings, they are empty. `tokens` are those of messages and
    tools by `TokenMemory.count`, `prompts` the requests to the summarizing model.
    """

    messages: Sequence[BaseMessage]
    tools: Sequence[Any]
    usage: TokenUsage | None
    warnings: Sequence[str]
    tokens: int
    logged: Sequence[str]
    prompts: Sequence[Sequence[BaseMessage]]


class NotesModel(Talker):
    """Writes summaries. Warnings in the log name the class, and are digested."""


class _ViewedHistory(History):
    """A history whose view is looked at; a system text is counted even where it is empty."""

    def set_up(self) -> None:
        system = SystemMessage(self.setting.system or "")
        self.setting.keywords["overhead_tokens"] = self.memory.count([system]).tokens
        super().set_up()

    async def request(self) -> list[BaseMessage]:
        self.memory.close()
        self.view = self.history.view()
        assert self.history.messages == self.view.messages
        return list(self.view.messages)


async def play(recording: Recording, adapter: str, window: int, variant: str) -> list[Call]:
    """Play a recording through an integration, and return every call."""
    notes = NotesModel(answer=lambda prompt: notes_on(prompt[-1].text), name_="")
    with TranscriptStore("sqlite://") as store:
        memory = TokenMemory(
            TokenBudget(context_window=window),
            summarizer=notes if variant == "model" else None,
            recall=Recall(store) if variant.endswith("recall") else None,
            background=variant != "model",
            now=pinned_now,
        )
        sent: Any = {"system": recording.system, "tools": recording.tools}
        options: Any = {"thread": "golden", "saver": InMemorySaver(), **sent}
        made = _ViewedHistory if adapter == "history" else CHATS[adapter]
        setting = Setting(memory, store, Talker(name_=""), **options)
        chat = made(setting, lambda _store: memory, is_async=False)
        calls: list[Call] = []
        start = 0
        for place in recording.calls:
            new, answer = recording.messages[start:place], recording.messages[place]
            calls.append(await _call(chat, notes, new, answer))
            start = place + 1
    return calls


async def _call(chat: Chat, notes: Talker, new: Sequence[BaseMessage], answer: BaseMessage) -> Call:
    memory = chat.memory

    def recorded(_request: list[BaseMessage]) -> AIMessage:
        memory.close()  # a job behind the call reads the transcript without the answer
        assert isinstance(answer, AIMessage)
        return answer

    chat.model.answer = recorded
    memory.close()  # waits for what a long message has left to the background
    asked = len(notes.requests)
    with _warnings_logged() as logged:
        messages = await chat.last(new)
    view = chat.view if isinstance(chat, ByHand | _ViewedHistory) else None
    messages = view.messages if view else messages
    has_tools = type(chat) in {CHATS["chain"], CHATS["middleware"]}
    tools = chat.model.keywords[-1].get("tools", ()) if has_tools else ()
    return Call(
        messages,
        tools,
        view.usage if view else None,
        view.warnings if view else (),
        memory.count(messages, tools=tools).tokens,
        tuple(logged),
        tuple(notes.requests[asked:]),
    )


def notes_on(order: str) -> str:
    """Return notes with every literal of what a prompt gives to read, while there is room."""
    words = _WORDS.search(order)
    room = _CHARACTERS_PER_WORD * int(words.group(1) if words else 100)
    read = "\n".join(text for _, text in _BLOCKS.findall(order))
    lines = ["## Goal", "The user works on a task.", "## Done"]
    for literal in dict.fromkeys(_LITERALS.findall(read)):
        room -= len(literal) + 3
        if room < 0:
            break
        lines.append(f"- {literal}")
    return "\n".join(lines)


@contextmanager
def _warnings_logged() -> Iterator[list[str]]:
    logged: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            logged.append(_SPEAKER.sub("", record.getMessage()))

    handler, logger = Handler(logging.WARNING), logging.getLogger("langchain_tokenmem")
    logger.addHandler(handler)
    try:
        yield logged
    finally:
        logger.removeHandler(handler)

"""Chat models by script: one repeats recorded answers, one writes summaries."""

from __future__ import annotations

import concurrent.futures._base
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import PrivateAttr

import langchain_tokenmem

_PACKAGE = str(Path(langchain_tokenmem.__file__).parent)
_WAITING = (threading.__file__, concurrent.futures._base.__file__)
_POLL_S = 0.005
_PATIENCE_S = 60.0

_LITERALS = re.compile(r"[\w@./-]*\d[\w@./:-]*|\w+(?:[./_@-]\w+)+")
_WORDS = re.compile(r"at most (\d+) words")
_BLOCKS = re.compile(r"<(earlier_notes|transcript|notes)>\n(.*?)\n</\1>", re.DOTALL)
_CHARACTERS_PER_WORD = 3


class RequestLog(BaseChatModel):
    """A chat model that keeps every request, and the tools that were bound."""

    _requests: list[list[BaseMessage]] = PrivateAttr(default_factory=list)
    _tools: list[Any] = PrivateAttr(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "golden"

    @property
    def requests(self) -> list[list[BaseMessage]]:
        """Every request, oldest first."""
        return self._requests

    @property
    def tools(self) -> list[Any]:
        """The tool schemas that were bound last."""
        return self._tools

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        self._tools[:] = tools
        return self.bind(tools=list(tools), **{k: v for k, v in kwargs.items() if v is not None})

    def answer(self, messages: list[BaseMessage]) -> AIMessage:
        """Return the answer to a request."""
        raise NotImplementedError

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self._requests.append(list(messages))
        return ChatResult(generations=[ChatGeneration(message=self.answer(messages))])


class RecordedModel(RequestLog):
    """Gives the answer that was laid out for it last, when `before_answer` has returned."""

    before_answer: Callable[[], None] | None = None
    _next: AIMessage | None = PrivateAttr(default=None)

    def lay_out(self, answer: BaseMessage) -> None:
        """Set the next answer."""
        assert isinstance(answer, AIMessage)
        self._next = answer

    def answer(self, messages: list[BaseMessage]) -> AIMessage:
        assert self._next is not None
        if self.before_answer is not None:
            self.before_answer()
        return self._next.model_copy()  # LangChain writes into what it is given


class NotesModel(RequestLog):
    """Summarizes by rule: every literal of the request, each once, as long as there is room.

    In a thread of its own it is held until the turn ends, or waits for it: so a summary in the
    background is finished between the same two calls in every run.
    """

    _owner: int = PrivateAttr(default_factory=threading.get_ident)
    _turn_ended: threading.Event = PrivateAttr(default_factory=threading.Event)
    _threads_before: set[threading.Thread] = PrivateAttr(default_factory=set)
    _held: set[int] = PrivateAttr(default_factory=set)

    def begin_turn(self) -> None:
        """Hold what begins from now on."""
        self._threads_before = set(threading.enumerate())
        self._turn_ended.clear()

    def end_turn(self) -> None:
        """Let go what is held."""
        self._turn_ended.set()

    def wait_until_held(self) -> None:
        """Wait until every thread of this turn is held or has ended."""
        for _ in _polls():
            mine = set(threading.enumerate()) - self._threads_before
            if all(thread.ident in self._held for thread in mine):
                return

    def answer(self, messages: list[BaseMessage]) -> AIMessage:
        own = threading.get_ident()
        if own != self._owner:
            self._held.add(own)
            for _ in _polls():
                if self._turn_ended.is_set() or _package_waits(self._owner):
                    break
            self._held.discard(own)
        return AIMessage(_notes_on(str(messages[-1].content)))


def _notes_on(order: str) -> str:
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


def _polls() -> Iterator[None]:
    """Come back every few milliseconds; raise where what is waited for never comes."""
    for _ in range(int(_PATIENCE_S / _POLL_S)):
        yield
        time.sleep(_POLL_S)
    raise AssertionError("A summary in the background and its turn wait for each other.")


def _package_waits(thread: int) -> bool:
    """Return whether a thread stands in a wait that the package's own code has begun."""
    frame = sys._current_frames().get(thread)
    if frame is None or frame.f_code.co_filename not in _WAITING:
        return False
    while frame is not None and frame.f_code.co_filename in _WAITING:
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(_PACKAGE)

"""Chat models by script: one repeats recorded answers, one writes summaries."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import PrivateAttr

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
    """Gives the answer that was laid out for it last, once nothing is at work behind the call."""

    _next: AIMessage | None = PrivateAttr(default=None)
    _wait: Callable[[], None] | None = PrivateAttr(default=None)

    def wait_for(self, wait: Callable[[], None]) -> None:
        """Set what is waited for: a job behind the call reads the transcript without the answer."""
        self._wait = wait

    def lay_out(self, answer: BaseMessage) -> None:
        """Set the next answer."""
        assert isinstance(answer, AIMessage)
        self._next = answer

    def answer(self, messages: list[BaseMessage]) -> AIMessage:
        assert self._next is not None
        if self._wait is not None:
            self._wait()
        return self._next.model_copy()  # LangChain writes into what it is given


class NotesModel(RequestLog):
    """Summarizes by rule: every literal of the request, each once, as long as there is room."""

    def answer(self, messages: list[BaseMessage]) -> AIMessage:
        return AIMessage(notes_on(str(messages[-1].content)))


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

"""Scripted chat models, good and hostile ones."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from pydantic import PrivateAttr

USAGE: UsageMetadata = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}

Answer = Callable[[list[BaseMessage]], AIMessage | str]


class Scripted(BaseChatModel):
    """Answers by a function of the messages; remembers what it was sent, and how."""

    answer: Answer | None = None
    name_: str = "scripted"
    delay_s: float = 0.0
    _requests: list[list[BaseMessage]] = PrivateAttr(default_factory=list)
    _kwargs: list[dict[str, Any]] = PrivateAttr(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @property
    def model_name(self) -> str:
        return self.name_

    @property
    def requests(self) -> list[list[BaseMessage]]:
        return self._requests

    @property
    def kwargs(self) -> list[dict[str, Any]]:
        return self._kwargs

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, Any]:
        return self.bind(tools=tools, **kwargs)

    def _said(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> AIMessage:
        self._requests.append(list(messages))
        self._kwargs.append(kwargs)
        time.sleep(self.delay_s)
        said = (self.answer or faithful)(messages)
        return AIMessage(said, usage_metadata=USAGE) if isinstance(said, str) else said

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._said(messages, kwargs))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        said = self._said(messages, kwargs)
        for word in re.findall(r"\S+\s*", str(said.content)):
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=word))
            if run_manager:
                run_manager.on_llm_new_token(word, chunk=chunk)
            yield chunk


LITERALS = re.compile(
    r"\b[\w./,-]*\d[\w./:,-]*\b|\b\w+(?:[./_]\w+)+\b|\b[0-9a-f]{8}-[0-9a-f-]+\b"
    r"|(?:never|NEVER) [^.\n]+"
)


def parts_of(messages: list[BaseMessage]) -> tuple[str, str]:
    """Return the earlier notes and the transcript that a request holds."""
    text = str(messages[-1].content)
    prior = re.search(r"<earlier_notes>\n(.*?)\n</earlier_notes>", text, re.DOTALL)
    said = re.search(r"<(?:transcript|notes)>\n(.*?)\n</(?:transcript|notes)>", text, re.DOTALL)
    return (prior.group(1) if prior else "", said.group(1) if said else "")


def faithful(messages: list[BaseMessage]) -> str:
    """Write notes that carry every literal of the request, each once, within the word limit."""
    prior, said = parts_of(messages)
    asked = re.search(r"at most (\d+) words", str(messages[-1].content))
    assert asked, "a prompt names its word limit"
    words = int(asked.group(1))
    found = dict.fromkeys(LITERALS.findall(f"{prior}\n{said}"))
    kept: list[str] = []
    for literal in found:
        if sum(len(one) + 3 for one in kept) + len(literal) > 6 * words - 50:
            break
        kept.append(literal)
    return "## Goal\nThe user works on the task.\n## Done\n" + "\n".join(f"- {one}" for one in kept)


def raising(_messages: list[BaseMessage]) -> str:
    raise ConnectionError("provider down")


def blank(_messages: list[BaseMessage]) -> AIMessage:
    return AIMessage([{"type": "reasoning", "summary": [{"text": "hm, long thoughts"}]}])


def endless(_messages: list[BaseMessage]) -> str:
    return "## Goal\n" + "and so on " * 20_000


def first_person(_messages: list[BaseMessage]) -> str:
    return "Sure! I'll fix the tests next. Shall I go on?"


def tool_calling(_messages: list[BaseMessage]) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": "search", "args": {}, "id": "c"}])


def length_stopped(_messages: list[BaseMessage]) -> AIMessage:
    return AIMessage("## Goal\nThe user wants", response_metadata={"finish_reason": "length"})


def too_short(_messages: list[BaseMessage]) -> str:
    return "ok."


class Gate:
    """A model that answers when it is let to."""

    def __init__(self, answer: Answer = faithful) -> None:
        self.open = threading.Event()
        self.asked = threading.Event()
        self.model = Scripted(answer=self._answer)
        self._say = answer

    def _answer(self, messages: list[BaseMessage]) -> AIMessage | str:
        self.asked.set()
        assert self.open.wait(20)
        return self._say(messages)

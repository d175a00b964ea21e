"""Scripted chat models, good and hostile ones."""

import re
import threading
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata

from tests.contract.chats import Answer, Talker

USAGE: UsageMetadata = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}


class Scripted(Talker):
    """Summarizes faithfully unless it is given an answer; its texts have cost `USAGE`."""

    answer: Any = None
    name_: str = "scripted"

    def _answer(self, messages: list[BaseMessage], keywords: dict[str, Any]) -> AIMessage:
        self.answer = self.answer or faithful
        said = super()._answer(messages, keywords)
        said.usage_metadata = said.usage_metadata or USAGE
        return said


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

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
        return said.model_copy(update={"usage_metadata": said.usage_metadata or USAGE})


LITERALS = re.compile(
    r"\b[\w./,-]*\d[\w./:,-]*\b|\b\w+(?:[./_]\w+)+\b|\b[0-9a-f]{8}-[0-9a-f-]+\b"
    r"|(?:never|NEVER) [^.\n]+"
)


def parts_of(messages: list[BaseMessage]) -> tuple[str, str]:
    """Return the earlier notes and the transcript that a request holds."""
    text = str(messages[-1].content)
    prior = re.search(r"<earlier_notes>\n(.*?)\n</earlier_notes>", text, re.DOTALL)
    said = re.search(r"<(transcript|notes)>\n(.*?)\n</\1>", text, re.DOTALL)
    return (prior[1] if prior else "", said[2] if said else "")


def faithful(messages: list[BaseMessage]) -> str:
    """Write notes that carry every literal of the request, each once, within the word limit."""
    asked = re.search(r"at most (\d+) words", str(messages[-1].content))
    assert asked, "a prompt names its word limit"
    left, kept = 6 * int(asked[1]) - 50, []
    for literal in dict.fromkeys(LITERALS.findall("\n".join(parts_of(messages)))):
        left -= len(literal) + 3
        if left < 0:
            break
        kept.append(f"- {literal}")
    return "\n".join(["## Goal\nThe user works on the task.\n## Done", *kept])


# Answers that are no summary

raising = ConnectionError("provider down")
blank = AIMessage([{"type": "reasoning", "summary": [{"text": "hm, long thoughts"}]}])
tool_calling = AIMessage("", tool_calls=[{"name": "search", "args": {}, "id": "c"}])
length_stopped = AIMessage("## Goal\nThe user wants")
length_stopped.response_metadata["finish_reason"] = "length"
HOSTILE = {
    "raising": raising,
    "blank": blank,
    "endless": "## Goal\n" + "and so on " * 20_000,
    "first person": "Sure! I'll fix the tests next. Shall I go on?",
    "tool calling": tool_calling,
    "length stopped": length_stopped,
    "too short": "ok.",
}


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

"""Summaries of other memories: how they are recognised, and the log's entry that they become."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime

from langchain_core.messages import BaseMessage, HumanMessage

from langchain_tokenmem.core.messages import reference, role_of, text_of
from langchain_tokenmem.state import MemoryState, RunningSummary, SummaryEntry, new_state

IMPORTED = "imported"
"""Reason, and version of the prompt, of an entry that another memory wrote."""

_MIDDLEWARE = "Here is a summary of the conversation to date:"
_MARK = {"lc_source": "summarization"}
"""Set by LangChain's SummarizationMiddleware on its summaries."""

_BEGINNINGS = {
    _MIDDLEWARE: "SummarizationMiddleware",
    "Summary of the conversation so far:": "langmem",
    "Summary of conversation earlier:": "langgraph",
}
"""Beginnings of system messages with a summary, by the memory that writes so."""

_LAST_IDS = 8
_BYTES_A_TOKEN = 3
"""Text has more in every language that was looked at: the count is too high rather than too low."""


@dataclass(frozen=True)
class OldSummary:
    """A summary of another memory.

    Attributes:
        text: Its words.
        model: Name of the memory that wrote it.
    """

    text: str
    model: str


def recognised(message: BaseMessage, given: str | None) -> OldSummary | None:
    """Return the summary that a message at the beginning of a history holds; None for another one.

    Args:
        message: The message.
        given: The summary as the application names it: a `ConversationSummaryMemory` puts it into
            a system message without any sign.
    """
    role, text = role_of(message), text_of(message).strip()
    has_mark = all(message.additional_kwargs.get(key) == value for key, value in _MARK.items())
    if role == "system" and given is not None and text == given.strip():
        return OldSummary(text, "ConversationSummaryMemory")
    if role == "system" or (role == "human" and has_mark):
        for beginning, model in _BEGINNINGS.items():
            rest = text.removeprefix(beginning)
            if rest != text and rest.strip():
                return OldSummary(rest.strip(), model)
    if role == "human" and has_mark and text:
        return OldSummary(text, "SummarizationMiddleware")
    return None


def carrier_of(summary: OldSummary, message: BaseMessage | None = None) -> BaseMessage:
    """Return the message that stands for a summary in the transcript, in LangChain's own form.

    A covered system message would stay visible beside the log, so a human one has the words.

    Args:
        summary: The summary.
        message: The message that held it, if one did; its id stays.
    """
    if message is not None and role_of(message) == "human":
        return message
    name = None if message is None else message.id
    return HumanMessage(f"{_MIDDLEWARE}\n\n{summary.text}", id=name, additional_kwargs=dict(_MARK))


@dataclass
class CoveredMessages:
    """The messages of a source that its summary covers, as they come by.

    Args:
        wanted: How many messages it covers, system messages not counted.

    Attributes:
        covered: How many came by so far; results of a covered call belong to it.
    """

    wanted: int
    covered: int = 0
    _first: str = ""
    _told: str = ""
    _first_human: str | None = None
    _last_ids: list[str] = field(default_factory=list)
    _system: list[str] = field(default_factory=list)
    _is_done: bool = False

    def see(self, message: BaseMessage, message_id: str) -> None:
        """Take the next message of the source, with the id under which it is stored."""
        role = role_of(message)
        self._first = self._first or message_id
        is_result = role in {"tool", "function"}
        self._is_done |= self.covered >= self.wanted and not is_result
        if self._is_done:
            return
        if role == "system":
            self._system.append(message_id)
            return
        self.covered += 1
        self._told = self._told or message_id
        self._last_ids = [message_id, *self._last_ids][:_LAST_IDS]
        if role == "human" and self._first_human is None:
            self._first_human = message_id

    @property
    def first(self) -> str:
        """Id of the first message of the source."""
        return self._first

    def state(self, summary: OldSummary, now: datetime, *, is_carried: bool) -> MemoryState | None:
        """Return the state that begins with the summary; None where nothing is covered.

        Args:
            summary: The summary.
            now: When it was imported.
            is_carried: Whether the last covered message is only there to hold the summary.
        """
        if not self._last_ids:
            return None
        kept = list(self._system)
        if self._first_human and not is_carried:
            kept.append(self._first_human)
        entry: SummaryEntry = {
            "id": hashlib.blake2b(ascii(summary.text).encode(), digest_size=8).hexdigest(),
            "text": summary.text,
            "first": reference(self._told),
            "covered": self.covered,
            "since": None,
            "until": None,
            "last_ids": list(self._last_ids),
            "tokens": -(-len(summary.text.encode("utf-8", "replace")) // _BYTES_A_TOKEN),
            "model": summary.model,
            "prompt_version": IMPORTED,
            "reason": IMPORTED,
            "created_at": now.isoformat(),
            "failures": [],
        }
        log: RunningSummary = {
            "entries": [entry],
            "covers_to": self._last_ids[0],
            "covered": self.covered,
        }
        return {**new_state(), "kept": kept, "summary": log}

"""Recorded conversations with pinned times, and the model calls that were made in them.

Every message gets an id from its place (`m0`, `m1`, ...) and a time from its place (a minute each),
so that nothing in a request depends on when it is played.
"""

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage, SystemMessage

# The only import here that is no public name.
from langchain_tokenmem.cli.replay import load_conversations

ROOT = Path(__file__).parents[2]
RECORDED_AGENT = ROOT / "examples" / "recorded_agent.jsonl"
SHARED = Path(os.environ.get("TOKENMEM_DATA", ROOT.parent / "shared" / "data"))

START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


def pinned_now() -> datetime:
    """Return the time at which every summary is made."""
    return START + timedelta(days=30)


@dataclass(frozen=True)
class Recording:
    """One recorded conversation, oldest message first, under the recording's own id.

    An application sends the system text beside the messages. Tools are in OpenAI's format, and the
    same in every request.
    """

    name: str
    messages: tuple[BaseMessage, ...]
    system: str | None = None
    tools: tuple[dict[str, Any], ...] = ()

    @property
    def calls(self) -> list[int]:
        """The number of messages that are before each recorded answer of the model."""
        kinds = [message.type for message in self.messages]
        first = next((place for place, kind in enumerate(kinds) if kind != "system"), 0)
        return [place for place, kind in enumerate(kinds) if kind == "ai" and place > first]

    @property
    def characters(self) -> int:
        return sum(len(message.text) for message in self.messages)


@cache
def recordings(path: Path) -> tuple[Recording, ...]:
    """Return the recordings of a file, their system messages in place."""
    return tuple(
        Recording(one.name, _with_times(one.messages), tools=one.tools)
        for one in load_conversations(path)
    )


@cache
def recorded_agent() -> Recording:
    """Return the recording in this repository, its system text beside the messages."""
    (whole,) = recordings(RECORDED_AGENT)
    first, *others = whole.messages
    assert isinstance(first, SystemMessage)
    return Recording(whole.name, tuple(others), system=first.text, tools=whole.tools)


def _with_times(messages: tuple[BaseMessage, ...]) -> tuple[BaseMessage, ...]:
    """Return copies that tell their time, as the memory's own marks do."""
    times = [(START + timedelta(minutes=place)).isoformat() for place in range(len(messages))]
    marks: list[Any] = [{"response_metadata": {"tokenmem": {"created_at": time}}} for time in times]
    pairs = zip(messages, marks, strict=True)
    return tuple(message.model_copy(update=mark) for message, mark in pairs)

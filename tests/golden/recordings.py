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

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage

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
    """One recorded conversation.

    Attributes:
        name: The recording's own id.
        messages: What was said, oldest first.
        system: System text that the application sends beside the messages.
        tools: Tool schemas of every request, in OpenAI's format.
    """

    name: str
    messages: tuple[BaseMessage, ...]
    system: str | None = None
    tools: tuple[dict[str, Any], ...] = ()

    @property
    def calls(self) -> list[int]:
        """The number of messages that stood before each recorded answer of the model."""
        return [
            place
            for place, message in enumerate(self.messages)
            if isinstance(message, AIMessage)
            and any(not isinstance(earlier, SystemMessage) for earlier in self.messages[:place])
        ]

    @property
    def characters(self) -> int:
        """How long it is."""
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
    return tuple(
        message.model_copy(
            update={
                "response_metadata": {
                    "tokenmem": {"created_at": (START + timedelta(minutes=place)).isoformat()}
                }
            }
        )
        for place, message in enumerate(messages)
    )

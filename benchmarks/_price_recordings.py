"""Recordings of `price.py`: read, drawn by chance, joined to longer ones."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from langchain_tokenmem.adapters.importing import message_of
from langchain_tokenmem.cli.measures import ReferenceCounter
from langchain_tokenmem.cli.replay import numbered


@dataclass(frozen=True)
class Recording:
    """A recorded run, in OpenAI's chat format.

    Attributes:
        name: Its id.
        source: Where it is from: the part of `source` before a colon or a space; else the file.
        recorded: Its messages as plain dicts.
    """

    name: str
    source: str
    recorded: Sequence[dict[str, Any]]

    def messages(self) -> list[BaseMessage]:
        """Return its messages, with ids by place."""
        return [*numbered(message_of(one, self.name) for one in self.recorded)]

    @property
    def size(self) -> int:
        """Characters of its text, roughly; long ones are played first."""
        return sum(len(str(one.get("content"))) for one in self.recorded)


def read_recordings(path: Path) -> list[Recording]:
    """Read a file of JSON Lines, gzipped or not; each line has `messages`."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines if line.strip()]
    return [
        Recording(
            str(row.get("id") or number),
            str(row.get("source") or path.name).split(":")[0].split(" ")[0],
            row["messages"],
        )
        for number, row in enumerate(rows)
    ]


GAPS_S = (301, 3_600)
"""Seconds of a pause: longer than most caches live, and an hour."""

GAP_SHARE = 0.1
"""Share of the calls with a pause in front."""


def with_gaps(messages: Sequence[BaseMessage], seed: int) -> list[BaseMessage]:
    """Return messages with times: a second between two, and before some calls a pause."""
    draw, moment, found = random.Random(seed), datetime(2026, 11, 2, 9, tzinfo=UTC), []
    for message in messages:
        is_asking = not isinstance(message, AIMessage)
        pause = draw.choice(GAPS_S) if is_asking and draw.random() < GAP_SHARE else 1
        moment += timedelta(seconds=pause)
        marks = {"tokenmem": {"created_at": moment.isoformat()}}
        metadata = {**message.response_metadata, **marks}
        found.append(message.model_copy(update={"response_metadata": metadata}))
    return found


def time_of_last(messages: Sequence[BaseMessage]) -> datetime | None:
    """Return the time of the last message; None where it has none."""
    marks = messages[-1].response_metadata.get("tokenmem") if messages else None
    return datetime.fromisoformat(marks["created_at"]) if marks else None


def sampled(recordings: Sequence[Recording], count: int | None, seed: int) -> list[Recording]:
    """Return some of the recordings, the same ones for the same seed; all without a count."""
    if count is None or count >= len(recordings):
        return list(recordings)
    chosen = sorted(random.Random(seed).sample(range(len(recordings)), count))
    return [recordings[place] for place in chosen]


def joined(
    recordings: Iterable[Recording], tokens: int, counter: ReferenceCounter
) -> list[Recording]:
    """Return recordings of one source joined until they have so many tokens; shorter ends go."""
    found: list[Recording] = []
    open_ones: dict[str, list[dict[str, Any]]] = {}
    sizes: dict[str, int] = {}
    for recording in recordings:
        source = recording.source
        own = open_ones.setdefault(source, [])
        added = [_renamed(one, recording.name) for one in recording.recorded]
        own += [one for one in added if not own or one["role"] not in {"system", "developer"}]
        sizes[source] = sizes.get(source, 0) + counter.messages(recording.messages())
        if sizes[source] >= tokens:
            found.append(Recording(f"{recording.name} and before", source, open_ones.pop(source)))
            sizes[source] = 0
    return found


def _renamed(message: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a message whose call ids no other run has."""
    if message.get("tool_call_id"):
        return {**message, "tool_call_id": f"{message['tool_call_id']}-{name}"}
    if message.get("tool_calls"):
        calls = [{**call, "id": f"{call.get('id')}-{name}"} for call in message["tool_calls"]]
        return {**message, "tool_calls": calls}
    return message

"""Sources of an entry of the running summary: the messages that it is about, line by line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.messages import spoken_messages
from langchain_tokenmem.core.numbers import numbered_messages
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.state import MemoryState, SummaryEntry


@dataclass(frozen=True)
class EntrySources:
    """Messages that an entry of the running summary is about.

    Attributes:
        entry: Id of the entry.
        first: Number of the first message.
        last: Number of the last one.
        lines: Each line of the entry's text with the numbers of the messages that it was taken
            from; none where the summarizer does not know them.
        messages: The messages by their numbers, as far as they are at hand and known for certain;
            empty where no messages were given.
    """

    entry: str
    first: int
    last: int
    lines: tuple[tuple[str, tuple[int, ...]], ...]
    messages: Mapping[int, BaseMessage] = field(default_factory=dict)


def sources_of(
    state: MemoryState, entry: SummaryEntry | str, messages: Sequence[BaseMessage] | None
) -> EntrySources:
    """Return the messages that an entry of a state's running summary is about.

    Args:
        state: The memory's state.
        entry: The entry, or its id.
        messages: The conversation, oldest first; None for numbers only.

    Raises:
        ConfigurationError: When the log has no such entry.
    """
    entries = state["summary"]["entries"] if state["summary"] else []
    key = entry if isinstance(entry, str) else entry["id"]
    found = next((one for one in entries if one["id"] == key), None)
    if found is None:
        known = ", ".join(one["id"] for one in entries) or "none"
        raise ConfigurationError(
            f"The running summary has no entry {key!r}; it has: {known}. One that was condensed "
            f"into another is named in the field `condensed` of that one."
        )
    texts = found["text"].splitlines()
    numbers = found.get("sources", [])[: len(texts)]
    lines = zip_longest(texts, map(tuple, numbers), fillvalue=())
    asked = {n for line in numbers for n in line} | {*range(found["first"], found["last"] + 1)}
    opened = numbered_messages(state, spoken_messages(messages)) if messages else {}
    return EntrySources(
        entry=key,
        first=found["first"],
        last=found["last"],
        lines=tuple((str(text), tuple(own)) for text, own in lines),
        messages={number: opened[number] for number in sorted(asked & opened.keys())},
    )

"""Sources of an entry of the running summary: the messages that it is about, line by line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.covered import is_whole, spans_of
from langchain_tokenmem.core.explained_request import lines_of
from langchain_tokenmem.core.messages import reference, spoken_messages
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.state import MemoryState, SummaryEntry


@dataclass(frozen=True)
class EntrySources:
    """Messages that an entry of the running summary is about.

    Attributes:
        entry: Id of the entry.
        first: Reference of the first message.
        last: Reference of the last one.
        lines: Each line of the entry's text with the references of the messages that it was taken
            from; none where the summarizer does not know them.
        messages: The messages by their references, as far as they are at hand and known for
            certain; empty where no messages were given.
    """

    entry: str
    first: str
    last: str
    lines: tuple[tuple[str, tuple[str, ...]], ...]
    messages: Mapping[str, BaseMessage] = field(default_factory=dict)


def sources_of(
    state: MemoryState, entry: SummaryEntry | str, messages: Sequence[BaseMessage] | None
) -> EntrySources:
    """Return the messages that an entry of a state's running summary is about.

    Args:
        state: The memory's state.
        entry: The entry, or its id.
        messages: The conversation, oldest first; None for references only.

    Raises:
        ConfigurationError: When the log has no such entry.
    """
    summary = state["summary"]
    entries = summary["entries"] if summary else []
    key = entry if isinstance(entry, str) else entry["id"]
    place = next((place for place, one in enumerate(entries) if one["id"] == key), None)
    if summary is None or place is None:
        known = ", ".join(one["id"] for one in entries) or "none"
        raise ConfigurationError(
            f"The running summary has no entry {key!r}; it has: {known}. One that was condensed "
            f"into another is named in the field `condensed` of that one."
        )
    found = entries[place]
    lines = lines_of(found)
    told = {name for _, names in lines for name in names}
    spoken = spoken_messages(messages or ())
    own = spans_of(summary, spoken)[place][-found["covered"] :]
    covered = {message.id for message in own} if is_whole(found, own) else set()
    named = {reference(m.id): m for m in spoken if m.id in covered or reference(m.id) in told}
    return EntrySources(
        entry=key,
        first=found["first"],
        last=reference(found["last_ids"][0]) if found["last_ids"] else "",
        lines=lines,
        messages=named,
    )

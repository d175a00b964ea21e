"""Search of a session's whole transcript, by regular expression or by words, for an agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Literal

import regex
from langchain_core.messages import BaseMessage

from langchain_tokenmem.adapters.tool_scope import NO_SESSION_STORE, ToolScope
from langchain_tokenmem.core.messages import (
    marks_of,
    reference,
    role_of,
    speaker_of,
    spoken_messages,
    text_of,
)
from langchain_tokenmem.core.search_units import Hit
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.recall.analysis import TextAnalyser
from langchain_tokenmem.recall.recall import Recall
from langchain_tokenmem.recall.regex_search import first_matches
from langchain_tokenmem.storage.transcript_store import TranscriptStore

_NAME = "history_search"
"""Speaker of earlier answers of this tool, which repeat what others said."""

_MOST = 100
_SECONDS = 2.0
_EXCERPT = 240
"""Characters of a message that an answer shows."""


SearchBy = Literal["regex", "words"]


@dataclass(frozen=True)
class HistorySearch:
    """Searches a conversation for the tool `history_search`.

    Attributes:
        recall: Searches the transcript of a store; without it the messages of the graph's state
            are searched.
        store: Has the transcript if there is neither a graph nor a recall.
        messages_key: State key of the messages.
    """

    recall: Recall | None
    store: TranscriptStore | None
    messages_key: str

    @cached_property
    def _by_itself(self) -> Recall | None:
        return None if self.store is None else Recall(self.store)

    def answer(self, scope: ToolScope, pattern: str, by: SearchBy, limit: int) -> str:
        """Return the messages that match, a line each."""
        most = max(1, min(limit, _MOST))
        if not pattern.strip():
            return "Say what to look for: pattern is empty."
        held = scope.state.get(self.messages_key)
        searched = self.recall or (self._by_itself if held is None else None)
        if searched is not None and scope.session_id is not None:
            lines = _in_store(searched, scope, pattern, by, most)
        else:
            lines = _in_messages(held, pattern, by, most)
        return "\n".join(lines) or "No message matches."


def _in_store(recall: Recall, scope: ToolScope, pattern: str, by: str, most: int) -> list[str]:
    """Return the matches in the transcript of a store, the newest or the best first."""
    own: dict[str, Any] = {"session_id": scope.session_id, "user_id": scope.user_id}
    limit = most + _MOST  # earlier answers of this tool, which are left out, count too
    hits: Sequence[Hit]
    if by == "words":
        hits = recall.search(pattern, k=limit, scope="session", **own)
    else:
        hits = recall.history_search(pattern, limit=limit, timeout_s=_SECONDS, **own)[::-1]
    lines = []
    for hit in [hit for hit in hits if hit.name != _NAME][:most]:
        speaker = speaker_of(hit.role, hit.name)
        start = _place(pattern, hit.text) if by == "regex" else 0
        lines.append(_line(hit.message_id, hit.created_at, speaker, hit.text, start))
    return lines


def _place(pattern: str, text: str) -> int:
    """Return where a pattern matches in a text that is known to match; 0 if that takes too long."""
    try:
        match = regex.search(pattern, text, regex.IGNORECASE, timeout=_SECONDS / 10)
    except TimeoutError:
        return 0
    return match.start() if match is not None else 0


def _in_messages(held: Sequence[BaseMessage] | None, pattern: str, by: str, most: int) -> list[str]:
    """Return the matches in the messages of a graph's state, the newest or the best first.

    Raises:
        ConfigurationError: When there is no conversation to search, or the pattern is not a regular
            expression.
        RecallError: When it took too long.
    """
    if held is None:
        raise ConfigurationError(NO_SESSION_STORE)
    spoken = [message for message in spoken_messages(held) if message.name != _NAME][::-1]
    if by == "words":
        analyser = TextAnalyser()
        asked = set(analyser.query_terms(pattern))
        shares = [(len(asked & {*analyser.terms(text_of(m))}), m) for m in spoken]
        best = sorted(shares, key=lambda one: -one[0])
        return [_found(m) for share, m in best if 2 * share >= len(asked) > 0][:most]
    found = first_matches(
        spoken, text_of, pattern, limit=most, ignore_case=True, timeout_s=_SECONDS
    )
    return [_found(message, _place(pattern, text_of(message))) for message in found]


def _found(message: BaseMessage, start: int = 0) -> str:
    created_at = marks_of(message).get("created_at")
    moment = datetime.fromisoformat(created_at) if isinstance(created_at, str) else None
    speaker = speaker_of(role_of(message), message.name)
    return _line(message.id, moment, speaker, text_of(message), start)


def _line(key: str | None, time: datetime | None, speaker: str, text: str, start: int) -> str:
    """Return a message as an answer shows it, around the place where it matches."""
    moment = f"{time:%Y-%m-%d %H:%M} " if time else ""
    first = max(0, start - _EXCERPT // 3)
    shown = " ".join(text[first : first + _EXCERPT].split())
    before, after = "... " * (first > 0), " ..." * (first + _EXCERPT < len(text))
    return f"{reference(key)} {moment}{speaker}: {before}{shown}{after}"

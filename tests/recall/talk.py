"""A store with a recall, and things to say in it."""

from __future__ import annotations

from datetime import UTC, datetime

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.core.search_units import Scope, ScopePartitions

NOON = datetime(2026, 3, 5, 12, tzinfo=UTC)

FILLER = (
    "The weather was grey and the tram came late.",
    "We talked about gardens and about bread.",
    "My sister plays the cello in an orchestra.",
    "There was a long queue at the post office.",
    "He repaired the old bicycle in the cellar.",
    "The film was dull but the music was fine.",
)


def talk(*texts: str, start: int = 0, name: str | None = None) -> list[BaseMessage]:
    """Messages with ids m0, m1 ..., human and AI by turns."""
    return [
        (HumanMessage if number % 2 == 0 else AIMessage)(text, id=f"m{start + number}", name=name)
        for number, text in enumerate(texts)
    ]


def filled(store: TranscriptStore, session_id: str, *planted: str, user_id: str | None = None):
    """Say filler, each planted sentence apart from the others, and filler again."""
    texts = [*FILLER]
    for sentence in planted:
        texts += [sentence, *FILLER]
    return store.add(
        session_id,
        [HumanMessage(text, id=f"{session_id}-{number}") for number, text in enumerate(texts)],
        user_id=user_id,
        now=NOON,
    )


def partitions_of(store: TranscriptStore, session_id: str) -> ScopePartitions:
    """Return the numbers that a session, and then its documents, have in every table."""
    with store.index.reading(Scope(session_id)) as reader:
        assert reader is not None
        return reader.partitions

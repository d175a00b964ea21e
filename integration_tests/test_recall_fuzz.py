"""Fuzzed scopes: whatever is asked, nothing of another session or user comes back."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage

from langchain_tokenmem import Recall, TranscriptStore
from langchain_tokenmem.recall import ChromaIndex, HashingEmbeddings

USERS = 6
SESSIONS = 4
MESSAGES = 15
QUERIES = 10_000
DENSE_QUERIES = 400

_TALK = """
alder birch cedar delta ember flint grove haven inlet jetty knoll ledge maple north orbit pearl
quartz river stone tower umber valley willow yarrow zenith harbor lantern meadow
"""
_WORDS = _TALK.split()


@dataclass(frozen=True)
class Owner:
    """A session and whose it is; None for one without an owner."""

    session_id: str
    user_id: str | None


class World:
    """Sessions of users, sessions of nobody and documents, all in the same few words.

    Every text ends with the name of its session or user, so that a hit can be told by what it
    says, not only by what it claims.
    """

    def __init__(self, store: TranscriptStore, recall: Recall, seed: int) -> None:
        self.random = random.Random(seed)
        self.recall = recall
        self.store = store
        self.owners = [Owner(f"s{u}-{s}", f"u{u}") for u in range(USERS) for s in range(SESSIONS)]
        # Names that begin alike, that hold signs of SQL, and that differ in case only.
        self.owners += [Owner("S0-0", "U0"), Owner("s0", "u"), Owner("s%", "u%"), Owner("n", None)]
        for owner in self.owners:
            self.fill(owner)

    def said(self) -> str:
        """Return a few words."""
        return " ".join(self.random.choices(_WORDS, k=self.random.randint(2, 6)))

    def fill(self, owner: Owner) -> None:
        """Write messages and documents; the ids are the same in every session."""
        messages = [
            (HumanMessage if number % 2 else AIMessage)(
                f"{self.said()} of-{owner.session_id}.", id=f"m{number}"
            )
            for number in range(MESSAGES)
        ]
        self.store.add(owner.session_id, messages, user_id=owner.user_id)
        note = Document(f"{self.said()} of-{owner.session_id}.", id="d", metadata={"kind": "note"})
        self.recall.add_documents([note], session_id=owner.session_id)
        if owner.user_id is not None:
            own = Document(f"{self.said()} of-{owner.user_id}.", id="d", metadata={"kind": "own"})
            self.recall.add_documents([own], user_id=owner.user_id)

    def allowed(self, asking: Owner, scope: str) -> set[str]:
        """Return whose texts may come back."""
        if scope == "session":
            return {asking.session_id}
        theirs = {each.session_id for each in self.owners if each.user_id == asking.user_id}
        return {*theirs, str(asking.user_id)}

    def ask(self) -> tuple[int, int]:
        """Ask one random question; return how many hits it has, and how many of strangers."""
        asking = self.random.choice(self.owners)
        scope = self.random.choice(("session", "user")) if asking.user_id else "session"
        query = self.said()
        if self.random.random() < 0.2:  # a question after others by name
            stranger = self.random.choice(self.owners)
            query += f" of-{stranger.session_id} {stranger.user_id}"
        options: dict[str, object] = {}
        if self.random.random() < 0.2:
            options["exclude"] = frozenset({f"m{self.random.randrange(MESSAGES)}"})
        if self.random.random() < 0.1:
            options["among"] = {f"m{self.random.randrange(MESSAGES)}" for _ in range(5)}
        if self.random.random() < 0.1:
            options["filter"] = {"kind": "note"}
        hits = self.recall.search(
            query,
            session_id=asking.session_id,
            user_id=asking.user_id,
            scope=scope,
            k=self.random.randint(1, 30),
            **options,
        )
        allowed = self.allowed(asking, scope)
        strangers = [
            hit
            for hit in hits
            if hit.text.rsplit(" of-", 1)[1].rstrip(".") not in allowed
            or (hit.session_id is not None and hit.session_id not in allowed)
        ]
        return len(hits), len(strangers)


@pytest.fixture
def store(tmp_path) -> Iterator[TranscriptStore]:
    with TranscriptStore(f"sqlite:///{tmp_path}/memory.db") as opened:
        yield opened


def fuzzed(world: World, queries: int) -> Counter[str]:
    """Ask many questions; return the sums."""
    counts: Counter[str] = Counter()
    for _ in range(queries):
        hits, strangers = world.ask()
        counts.update(queries=1, hits=hits, strangers=strangers, answered=hits > 0)
    print(dict(counts))
    return counts


def test_ten_thousand_searches_by_words_return_nothing_out_of_scope(store):
    with Recall(store) as recall:
        counts = fuzzed(World(store, recall, seed=1), QUERIES)
    assert counts["queries"] == QUERIES
    assert counts["answered"] > QUERIES / 2  # else nothing was proven
    assert counts["hits"] > 3 * QUERIES
    assert counts["strangers"] == 0


def test_searches_with_vectors_return_nothing_out_of_scope(store, tmp_path):
    chroma = ChromaIndex(tmp_path / "chroma", embeddings=HashingEmbeddings(dim=64))
    with Recall(store, chroma) as recall:
        world = World(store, recall, seed=2)
        recall.index()
        counts = fuzzed(world, DENSE_QUERIES)
    assert counts["answered"] > DENSE_QUERIES / 2
    assert counts["strangers"] == 0

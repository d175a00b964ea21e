"""Nobody finds what is another's: scopes in the query, and once more on every hit."""

from __future__ import annotations

import os
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage

from langchain_tokenmem import Recall, TranscriptStore
from langchain_tokenmem.core.search_units import Scope, pack_unit
from langchain_tokenmem.errors import ScopeError
from tests.recall.talk import filled, partitions_of

WORDS = ["river", "lamp", "stone", "violin", "copper", "meadow", "anchor", "falcon", "ginger"]
QUERIES = 10_000 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 500


@pytest.mark.parametrize(
    "options",
    [
        {"session_id": ""},
        {"session_id": "  "},
        {"session_id": None},
        {"session_id": 7},
        {"session_id": "s", "scope": "user"},
        {"session_id": "s", "scope": "user", "user_id": " "},
        {"session_id": "s", "scope": "everybody"},
        {"session_id": "s", "user_id": " "},
    ],
)
def test_without_a_scope_nothing_is_searched(store, options):
    store.add("s", [HumanMessage("river")])
    with pytest.raises(ScopeError):
        Recall(store).search("river", **options)


def test_another_users_session_is_an_error(store):
    store.add("s", [HumanMessage("river")], user_id="ann")
    recall = Recall(store)
    for scope in ("session", "user"):
        with pytest.raises(ScopeError, match="another user"):
            recall.search("river", session_id="s", user_id="bob", scope=scope)
    with pytest.raises(ScopeError, match="another user"):
        recall.history_search("river", session_id="s", user_id="bob")


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.lists(st.sampled_from(WORDS), min_size=1, max_size=6)),
        min_size=1,
        max_size=25,
    ),
    st.integers(0, 5),
    st.sampled_from(WORDS),
    st.sampled_from(["session", "user"]),
)
def test_no_search_finds_what_is_out_of_scope(said, asker, word, scope):
    # Sessions 0 to 2 are Ann's, 3 and 4 Bob's, 5 is nobody's.
    owner = {0: "ann", 1: "ann", 2: "ann", 3: "bob", 4: "bob", 5: None}
    with TranscriptStore("sqlite://") as store:
        recall = Recall(store)
        for number, (session, words) in enumerate(said):
            text = HumanMessage(" ".join(words), id=f"m{number}")
            store.add(f"s{session}", [text], user_id=owner[session])
        user = owner[asker]
        if user is None and scope == "user":
            return
        hits = recall.search(word, session_id=f"s{asker}", user_id=user, scope=scope, k=50)
        allowed = (
            {f"s{asker}"}
            if scope == "session"
            else {f"s{number}" for number, who in owner.items() if who == user}
        )
        assert {hit.session_id for hit in hits} <= allowed
        own = [text for session, text in said if f"s{session}" in allowed and word in text]
        assert bool(hits) == bool(own)


@pytest.mark.slow
def test_fuzzed_scopes_find_nothing_of_others(store):
    """Many sessions and users in one store; 10,000 queries with HYPOTHESIS_PROFILE=long."""
    chance = random.Random(5)
    recall = Recall(store)
    for number in range(60):
        words = [" ".join(chance.choices(WORDS, k=5)) for _ in range(6)]
        user = f"u{number % 7}" if number % 7 else None
        store.add(
            f"s{number}",
            [HumanMessage(text, id=f"{number}-{at}") for at, text in enumerate(words)],
            user_id=user,
        )
    found = 0
    for _ in range(QUERIES):
        number, scope = chance.randrange(60), chance.choice(["session", "user"])
        user = f"u{number % 7}" if number % 7 else None
        if user is None:
            scope = "session"
        query = " ".join(chance.choices(WORDS, k=2))
        with store.index.reading(Scope(f"s{number}", user, scope == "user")) as reader:
            scores = recall.lexical.scores(query, reader)
            sources = reader.sources(scores.units.tolist()).values()
        found += len(sources)
        for source in sources:
            assert source.user_id == user
            assert scope == "user" or source.session_id == f"s{number}"
    assert found > QUERIES


def test_a_hit_out_of_scope_is_dropped_though_the_index_offers_it(store):
    """The second check: a damaged or stale index shows nobody another's words."""
    Recall(store)
    store.add("a", [HumanMessage("river", id="a1")], user_id="ann")
    store.add("b", [HumanMessage("river", id="b1")], user_id="bob")
    (partition,) = partitions_of(store, "b").partitions
    for scope in (Scope("a", "ann"), Scope("a", "ann", whole_user=True), Scope("a")):
        with store.index.reading(scope) as reader:
            assert reader.sources([pack_unit(partition, 1)]) == {}


def test_a_user_may_be_called_like_somebody_elses_session(store):
    recall = Recall(store)
    recall.add_documents([Document("river lamp", id="d")], user_id="ann")
    filled(store, "ann", "The river is cold.", user_id="bob")
    filled(store, "a", user_id="ann")
    assert recall.erase(session_id="ann")["documents"] == 0
    assert recall.count(user_id="ann") == 1
    filled(store, "ann", "The river is cold.", user_id="bob")
    assert recall.erase(user_id="ann")["documents"] == 1
    assert store.sessions() == ["ann"]
    assert recall.search("river", session_id="ann", user_id="bob")


def test_documents_of_another_user_are_not_found(store):
    recall = Recall(store)
    store.add("a", [HumanMessage("hello", id="a1")], user_id="ann")
    store.add("b", [HumanMessage("hello", id="b1")], user_id="bob")
    recall.add_documents([Document("river lamp", id="d")], user_id="ann")
    mine = recall.search("river lamp", session_id="a", user_id="ann", scope="user")
    assert [hit.document_id for hit in mine] == ["d"]
    assert recall.search("river lamp", session_id="b", user_id="bob", scope="user") == []
    assert recall.search("river lamp", session_id="a", user_id="ann") == []

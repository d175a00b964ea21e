"""No one finds what is another's, and what is erased is gone: every byte, and nothing else."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage

from langchain_tokenmem import Recall, TranscriptRetriever, TranscriptStore
from langchain_tokenmem.core.search_units import Scope, pack_unit
from langchain_tokenmem.errors import ScopeError
from langchain_tokenmem.recall import HashingEmbeddings
from tests.contract.chats import bytes_of
from tests.recall.samples import filled

WORDS = ["river", "lamp", "stone", "violin", "copper", "meadow", "anchor", "falcon", "ginger"]


WRONG = [
    *({"session_id": ""}, {"session_id": None}, {"user_id": " "}, {"user_id": "bob"}),
    *({"scope": "user", **who} for who in ({}, {"user_id": " "}, {"user_id": "bob"})),
    {"scope": "everybody"},
]


@pytest.mark.parametrize("options", WRONG, ids=str)
def test_without_a_scope_of_ones_own_nothing_is_searched(store, options):
    store.add("s", [HumanMessage("river")], user_id="ann")
    with pytest.raises(ScopeError):
        Recall(store).search("river", **{"session_id": "s", **options})


SAID = st.tuples(st.integers(0, 5), st.lists(st.sampled_from(WORDS), min_size=1, max_size=6))


@pytest.mark.slow
@given(
    st.lists(SAID, min_size=1, max_size=25),
    st.integers(0, 5),
    st.sampled_from(WORDS),
    st.sampled_from(["session", "user"]),
    st.sampled_from([None, HashingEmbeddings(16)]),
)
@settings(max_examples=settings.default.max_examples // 2)
def test_no_search_finds_what_is_out_of_scope(said, asker, word, scope, embeddings):
    # Sessions 0 to 2 are Ann's, 3 and 4 Bob's, 5 is nobody's.
    owner = {0: "ann", 1: "ann", 2: "ann", 3: "bob", 4: "bob", 5: None}
    with (
        TranscriptStore("sqlite://", shared=True) as store,
        Recall(store, embeddings=embeddings) as recall,
    ):
        for number, (session, words) in enumerate(said):
            text, name = " ".join(words), f"s{session}"
            store.add(name, [HumanMessage(text, id=f"m{number}")], user_id=owner[session])
            if number % 3 == 0:
                recall.add_documents([Document(text, id="d")], session_id=name)
            if number % 3 == 1 and owner[session]:
                own = Document(f"{text} of-{owner[session]}", id=f"d{number}")
                recall.add_documents([own], user_id=owner[session])
        recall.index()
        user = owner[asker]
        if user is None and scope == "user":
            return
        hits = recall.search(word, session_id=f"s{asker}", user_id=user, scope=scope, k=50)
        theirs = {f"s{number}" for number, who in owner.items() if who == user}
        allowed = theirs if scope == "user" else {f"s{asker}"}
        for hit in hits:  # a document of a user has no session
            assert hit.session_id in allowed or hit.text.endswith(f" of-{user}"), hit
            assert hit.session_id or scope == "user"
        own = [text for session, text in said if f"s{session}" in allowed and word in text]
        assert bool(hits) == bool(own) or (embeddings and hits)  # by meaning, more is found


def test_a_hit_out_of_scope_is_dropped_though_the_index_offers_it(store):
    """The second check: a damaged or stale index shows nobody another's words."""
    store.add("a", [HumanMessage("river", id="a1")], user_id="ann")
    store.add("b", [HumanMessage("river", id="b1")], user_id="bob")
    with store.index.reading(Scope("b")) as reader:
        (partition,) = reader.partitions.partitions
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


CANARY = "xyzzy7319canary"


def test_no_byte_of_a_cleared_session_or_of_a_deleted_document_is_left(tmp_path):
    with TranscriptStore(tmp_path / "memory.db", shared=True) as store, Recall(store) as recall:
        store.add("s", [HumanMessage(f"Remember {CANARY}. " * 300)])
        recall.add_documents([Document(f"{CANARY} " * 50, id="d")], session_id="t")
        assert CANARY.encode() in bytes_of(tmp_path)
        store.clear("s")
        recall.delete("d", session_id="t")
        assert CANARY.encode() not in bytes_of(tmp_path)


def test_a_search_of_a_named_user_has_the_scope_of_its_recall(store):
    for number in range(2):
        store.add(f"s{number}", [HumanMessage(f"The kayak costs {number} euros.")], user_id="u")
    with Recall(store, scope="user") as recall:
        found = recall.search("What does the kayak cost?", user_id="u")
        assert {hit.session_id for hit in found} == {"s0", "s1"}
        retriever = TranscriptRetriever(recall=recall, user_id="u")
        assert len(retriever.invoke("What does the kayak cost?")) == 2
        with pytest.raises(ScopeError):
            recall.search("What does the kayak cost?")

"""What was redacted, edited or removed in a thread is not recalled, searched or shown elsewhere."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain.agents.middleware import PIIMiddleware
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langchain_core.vectorstores import InMemoryVectorStore
from langgraph.checkpoint.memory import InMemorySaver

from langchain_tokenmem import Recall, TokenMemoryMiddleware, TokenMemorySaver, TranscriptStore
from langchain_tokenmem.recall import VectorStoreIndex
from tests.adapters.integrations import graph_of, thread
from tests.contract.chats import Way
from tests.fakes import memory_of, replacing
from tests.summarize.models import Scripted

RAW = "ann.lee@example.com"
ASKED = "What is the e-mail address of the customer?"
SAID = f"The e-mail address of the customer is {RAW}, please remember it."


def said() -> HumanMessage:
    return HumanMessage(SAID, id="fact")


redacted = replacing("[REDACTED_EMAIL]", RAW)


def chat(store: TranscriptStore, **keywords: Any) -> Any:
    def answer(state: Any) -> Any:
        return {"messages": [AIMessage("Noted.", id=f"a{len(state['messages'])}")]}

    return graph_of(answer, saver=TokenMemorySaver(store, **keywords))


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_an_email_that_pii_middleware_redacts_is_in_no_other_threads_request(store, durability):
    recall, model = Recall(store, scope="user"), Scripted(answer="Noted.")
    middleware = TokenMemoryMiddleware(memory_of(4_000, recall=recall))
    agent = create_agent(
        model,
        middleware=[PIIMiddleware("email", strategy="redact"), middleware],
        checkpointer=TokenMemorySaver(store),
    )
    for words, name, where in ((SAID, "fact", "one"), (ASKED, "ask", "two")):
        given = {"messages": [HumanMessage(words, id=name)]}
        agent.invoke(given, thread(where, user_id="u"), durability=durability)
    assert "[REDACTED_EMAIL]" in str(model.requests[-1]), "the message is recalled"
    assert RAW not in str(model.requests)
    assert recall.search(RAW, session_id="two", user_id="u", scope="user") == []
    assert recall.history_search("ann", session_id="one") == []
    for shown in (store.messages("one"), store.get("one", "fact")):
        assert RAW not in str(shown)
    # The raw words were in a checkpoint, where each step is one: they can be asked for.
    everything = str(store.messages("one", include_superseded=True))
    assert (RAW in everything) == (durability == "sync")
    old = recall.history_search("ann", session_id="one", include_superseded=True)
    assert [hit.text for hit in old] == ([SAID] if durability == "sync" else [])


def test_edited_words_leave_a_vector_store_too(store):
    vectors = InMemoryVectorStore(DeterministicFakeEmbedding(size=16))
    with Recall(store, VectorStoreIndex(vectors)) as recall:
        graph = chat(store)
        graph.invoke({"messages": [said()]}, thread())
        recall.index()
        assert any(RAW in entry["text"] for entry in vectors.store.values())
        count = len(vectors.store)
        graph.update_state(thread(), {"messages": redacted([said()])})
        recall.index()
        assert not any(RAW in entry["text"] for entry in vectors.store.values())
        assert len(vectors.store) == count


def test_erasing_deleting_and_clearing_take_superseded_words_along(tmp_path):
    with TranscriptStore(tmp_path / "memory.db") as store:
        for name in ("erased", "deleted", "kept"):
            graph = chat(store)
            for words in (f"A canary: {name}-4711", "Edited."):
                given = {"messages": [HumanMessage(words, id="fact")]}
                graph.update_state(thread(name), given, as_node="model")
        store.erase(session_id="erased")
        graph.checkpointer.delete_thread("deleted")
        for words in ("A canary: cleared-4711", "Edited."):
            store.add("cleared", [HumanMessage(words, id="m")])
        store.clear("cleared")
    left = b"".join(p.read_bytes() for p in tmp_path.iterdir())
    found = [f"{name}-4711".encode() in left for name in ("erased", "deleted", "cleared", "kept")]
    assert found == [False, False, False, True]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["history", "chain", "nodes", "middleware"])
async def test_what_before_store_takes_out_is_never_stored(name, tmp_path):
    way = Way(name, is_async=False, url=f"sqlite:///{tmp_path}/memory.db")
    chat = way.chat(
        lambda store: memory_of(4_000, recall=Recall(store), before_store=redacted),
        saver=InMemorySaver(),
    )
    await chat.ask(said())
    chat.store.close()
    with TranscriptStore(tmp_path / "memory.db") as store:
        assert "[REDACTED_EMAIL]" in str(store.messages("t1")[0].content)
        assert RAW not in str(store.messages("t1", include_superseded=True))
        assert Recall(store).search(RAW, session_id="t1") == []
    assert RAW.encode() not in b"".join(p.read_bytes() for p in tmp_path.iterdir())


def test_a_saver_gives_back_what_the_graph_put_and_stores_what_before_store_leaves(store):
    graph = chat(store, before_store=redacted)
    graph.invoke({"messages": [said()]}, thread())
    assert graph.get_state(thread()).values["messages"][0].content == SAID
    assert RAW not in str(store.messages("t", include_superseded=True))
    assert Recall(store).search(RAW, session_id="t") == []


STEPS = st.lists(
    st.tuples(st.sampled_from(["say", "edit", "remove", "switch", "fork"]), st.integers(0, 5)),
    min_size=3,
    max_size=12,
)


@pytest.mark.slow
@given(STEPS, st.sampled_from(["keep", "hide"]))
@settings(max_examples=settings.default.max_examples // 2)
def test_every_search_shows_the_words_of_the_head_only(steps, on_remove):
    """Edits, removals and forks at random over two branches of a thread."""
    with TranscriptStore("sqlite://") as store, Recall(store) as recall:
        graph = chat(store, on_remove=on_remove)
        graph.update_state(thread(), {"messages": [HumanMessage("word0 common", id="m0")]})
        tips = [graph.get_state(thread()).config] * 2
        at, number = 0, 1
        for kind, place in steps:
            held = graph.get_state(tips[at]).values["messages"]
            words = f"word{number} common"
            if kind == "switch":
                at = 1 - at
                continue
            if kind == "fork":
                past = list(graph.get_state_history(thread()))
                tips[1 - at] = past[place % len(past)].config
                continue
            if kind == "say" or not held:
                change: Any = HumanMessage(words, id=f"m{number}")
            elif kind == "edit":
                change = HumanMessage(words, id=held[place % len(held)].id)
            else:
                change = RemoveMessage(id=held[place % len(held)].id)
            number += 1
            tips[at] = graph.update_state(tips[at], {"messages": [change]})
            head = {m.id: m.content for m in graph.get_state(thread()).values["messages"]}
            shown = {m.id: m.content for m in store.messages("t")}
            hits = {h.message_id: h.text for h in recall.search("common", session_id="t", k=50)}
            assert shown.items() >= head.items()
            assert all(hits[key] == shown[key] for key in hits)
            assert on_remove == "keep" or shown.keys() == head.keys()
            now = {str(text).split()[0] for text in shown.values()}
            for old in {f"word{n}" for n in range(number)} - now:
                assert recall.search(old, session_id="t") == []

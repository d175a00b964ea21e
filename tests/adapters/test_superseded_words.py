"""What was redacted, edited or removed in a thread is not recalled, searched or shown elsewhere."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain.agents.middleware import PIIMiddleware
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.vectorstores import InMemoryVectorStore
from langgraph.graph import START, MessagesState, StateGraph

from langchain_tokenmem import (
    MemoryMessagesState,
    Recall,
    TokenBudget,
    TokenMemory,
    TokenMemoryChatHistory,
    TokenMemoryMiddleware,
    TokenMemorySaver,
    TranscriptStore,
    memory_nodes,
    with_token_memory,
)
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.recall import ChromaIndex, VectorStoreIndex
from tests.fakes import CharCounter, ListSummarizer
from tests.summarize.models import Scripted

RAW = "ann.lee@example.com"
ASKED = "What is the e-mail address of the customer?"
SAID = f"The e-mail address of the customer is {RAW}, please remember it."


def thread(name: str, **more: Any) -> Any:
    return {"configurable": {"thread_id": name, "user_id": "u", **more}}


def memory_of(recall: Recall, **keywords: Any) -> TokenMemory:
    return TokenMemory(
        TokenBudget(context_window=4_000),
        counter=CharCounter(),
        summarizer=ListSummarizer(),
        recall=recall,
        recall_scope="user",
        **keywords,
    )


def redacted(messages: list[BaseMessage]) -> list[BaseMessage]:
    return [
        m.model_copy(update={"content": str(m.content).replace(RAW, "[REDACTED_EMAIL]")})
        for m in messages
    ]


def chat(store: TranscriptStore, **keywords: Any) -> Any:
    def answer(state: Any) -> Any:
        return {"messages": [AIMessage("Noted.", id=f"a{len(state['messages'])}")]}

    builder = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer")
    return builder.compile(checkpointer=TokenMemorySaver(store, **keywords))


def terms_of(store: TranscriptStore) -> set[str]:
    with store.database.reading("terms") as connection:
        rows = connection.exec_driver_sql("SELECT term FROM tokenmem_terms")
        return {row[0] for row in rows}


def texts(messages: list[BaseMessage]) -> list[str]:
    return [str(message.content) for message in messages]


class Embedded(DeterministicFakeEmbedding):
    """Remembers the texts that it was given."""

    seen: list[str] = []  # noqa: RUF012  # a pydantic field

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.seen.extend(texts)
        return super().embed_documents(texts)


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_an_email_that_pii_middleware_redacts_is_in_no_other_threads_request(tmp_path, durability):
    with TranscriptStore(f"sqlite:///{tmp_path}/memory.db") as store:
        recall = Recall(store)
        model = Scripted(answer=lambda _messages: "Noted.")
        agent = create_agent(
            model,
            middleware=[
                PIIMiddleware("email", strategy="redact"),
                TokenMemoryMiddleware(memory_of(recall)),
            ],
            checkpointer=TokenMemorySaver(store),
        )
        for words, name, where in ((SAID, "fact", "one"), (ASKED, "ask", "two")):
            said = {"messages": [HumanMessage(words, id=name)]}
            agent.invoke(said, thread(where), durability=durability)
        request = str(model.requests[-1])
        assert "[REDACTED_EMAIL]" in request, "the message is recalled"
        assert RAW not in str(model.requests)
        hits = recall.search(ASKED, session_id="two", user_id="u", scope="user")
        assert "fact" in [hit.message_id for hit in hits]
        assert RAW not in str(hits)
        assert recall.search(RAW, session_id="two", user_id="u", scope="user") == []
        assert recall.history_search("ann", session_id="one") == []
        assert RAW not in str(store.messages("one"))
        assert RAW not in str(store.get("one", "fact"))
        assert RAW not in str(TokenMemoryChatHistory("one", store=store).full_history())
        assert not {RAW, "ann", "ann.lee"} & terms_of(store)

        if durability == "exit":  # the raw words were in no checkpoint
            assert RAW not in str(store.messages("one", include_superseded=True))
            return
        assert RAW in str(store.messages("one", include_superseded=True))
        if durability == "sync":
            assert store.get("one", "fact", include_superseded=True).content == SAID
        (hit,) = recall.history_search("ann", session_id="one", include_superseded=True)
        assert hit.text == SAID
        assert "superseded" in hit.metadata


@pytest.mark.slow
def test_a_vector_of_edited_words_is_made_anew_and_the_old_one_is_gone(tmp_path):
    embeddings = Embedded(size=16)
    with (
        TranscriptStore(f"sqlite:///{tmp_path}/memory.db") as store,
        Recall(store, ChromaIndex(str(tmp_path / "chroma"), embeddings=embeddings)) as recall,
    ):
        graph = chat(store)
        graph.invoke({"messages": [HumanMessage(SAID, id="fact")]}, thread("one"))
        recall.index()
        before = vectors(tmp_path / "memory.db")
        embeddings.seen.clear()
        graph.update_state(thread("one"), {"messages": redacted([HumanMessage(SAID, id="fact")])})
        recall.index()
        after = vectors(tmp_path / "memory.db")
        assert before.keys() == after.keys()
        assert sum(before[unit] != after[unit] for unit in before) == 1
        assert [RAW in text for text in embeddings.seen] == [False]
        assert recall.backlog() == {"lexical": 0, "vectors": 0}


def test_edited_words_leave_a_vector_store_too():
    vectors = InMemoryVectorStore(DeterministicFakeEmbedding(size=16))
    with (
        TranscriptStore("sqlite://") as store,
        Recall(store, VectorStoreIndex(vectors)) as recall,
    ):
        graph = chat(store)
        graph.invoke({"messages": [HumanMessage(SAID, id="fact")]}, thread("one"))
        recall.index()
        assert any(RAW in entry["text"] for entry in vectors.store.values())
        count = len(vectors.store)
        graph.update_state(thread("one"), {"messages": redacted([HumanMessage(SAID, id="fact")])})
        recall.index()
        assert not any(RAW in entry["text"] for entry in vectors.store.values())
        assert len(vectors.store) == count


def vectors(path: Any) -> dict[int, bytes]:
    with sqlite3.connect(path) as raw:
        return dict(raw.execute("SELECT unit, vector FROM tokenmem_vectors").fetchall())


@pytest.mark.slow
def test_a_fork_from_before_the_edit_sees_the_original_and_the_branch_after_it_the_edit():
    with TranscriptStore("sqlite://") as store, Recall(store) as recall:
        graph = chat(store)
        graph.invoke({"messages": [HumanMessage("The code is QUOKKA.", id="fact")]}, thread("t"))
        raw = graph.get_state(thread("t")).config
        edit = HumanMessage("The code is WOMBAT.", id="fact")
        edited = graph.update_state(thread("t"), {"messages": [edit]})

        def code() -> list[str]:
            found = recall.search("What is the code?", session_id="t")
            return [hit.text for hit in found if hit.message_id == "fact"]

        assert code() == ["The code is WOMBAT."]
        graph.invoke({"messages": [HumanMessage("Go on.", id="fork")]}, raw)
        assert code() == ["The code is QUOKKA."]
        assert recall.search("WOMBAT", session_id="t") == []
        graph.invoke({"messages": [HumanMessage("Go on.", id="back")]}, edited)
        assert code() == ["The code is WOMBAT."]
        again = HumanMessage("The code is KOALA.", id="fact")
        graph.update_state(thread("t"), {"messages": [again]})
        assert code() == ["The code is KOALA."]
        versions = store.messages("t", include_superseded=True)[:3]
        assert [m.response_metadata.get("tokenmem") for m in versions] == [
            {"superseded": 0},
            {"superseded": 1},
            None,
        ]
        assert graph.get_state(raw).values["messages"][0].content == "The code is QUOKKA."


@pytest.mark.slow
@pytest.mark.parametrize("on_remove", ["keep", "hide"])
def test_a_removed_message_stays_recallable_unless_removals_hide(on_remove):
    with TranscriptStore("sqlite://") as store, Recall(store) as recall:
        graph = chat(store, on_remove=on_remove)
        graph.invoke({"messages": [HumanMessage("The code is QUOKKA.", id="fact")]}, thread("t"))
        with_it = graph.get_state(thread("t")).config
        graph.update_state(thread("t"), {"messages": [RemoveMessage(id="fact")]})
        is_kept = on_remove == "keep"
        assert bool(recall.search("QUOKKA", session_id="t")) == is_kept
        assert ("QUOKKA" in str(store.messages("t"))) == is_kept
        assert (store.get("t", "fact") is not None) == is_kept
        assert bool(recall.history_search("QUOKKA", session_id="t")) == is_kept
        assert ("quokka" in terms_of(store)) == is_kept
        assert "QUOKKA" in str(store.messages("t", include_superseded=True))
        assert store.count("t") == 2
        graph.invoke({"messages": [HumanMessage("Go on.", id="fork")]}, with_it)
        assert recall.search("QUOKKA", session_id="t"), "the head has it again"


@pytest.mark.slow
def test_a_copied_and_a_migrated_thread_show_the_edited_words():
    with TranscriptStore("sqlite://") as store, TranscriptStore("sqlite://") as other:
        from langchain_tokenmem.adapters.migration.checkpoints import migrate_checkpoints

        recall, elsewhere = Recall(store), Recall(other)
        graph = chat(store)
        graph.invoke({"messages": [HumanMessage(SAID, id="fact")]}, thread("t"))
        graph.update_state(thread("t"), {"messages": redacted([HumanMessage(SAID, id="fact")])})
        graph.checkpointer.copy_thread("t", "copy")
        graph.checkpointer.prune(["t"])
        migrate_checkpoints(graph.checkpointer, TokenMemorySaver(other), threads=["t"])
        for found, name, search in ((store, "copy", recall), (other, "t", elsewhere)):
            assert RAW not in str(found.messages(name))
            assert RAW in str(found.messages(name, include_superseded=True))
            assert search.search(RAW, session_id=name) == []
            assert search.search("customer", session_id=name)
        assert "ann" not in terms_of(store) | terms_of(other)


def test_a_message_that_no_transcript_holds_exactly_is_no_edit_of_itself():
    with TranscriptStore("sqlite://") as store:
        graph = chat(store)
        result = ToolMessage("found", tool_call_id="c", id="r", artifact=b"bytes")
        call = {"name": "look", "args": {}, "id": "c"}
        said = [AIMessage("", tool_calls=[call], id="a"), result]
        graph.invoke({"messages": said}, thread("t"))
        chat(store).invoke({"messages": [HumanMessage("Go on.", id="next")]}, thread("t"))
        assert texts(store.messages("t", include_superseded=True))[:2] == ["", "found"]


@pytest.mark.slow
def test_erasing_and_deleting_a_thread_take_superseded_words_along(tmp_path):
    with TranscriptStore(f"sqlite:///{tmp_path}/memory.db") as store:
        graph = chat(store)
        for name in ("erased", "deleted"):
            graph.invoke({"messages": [HumanMessage(SAID, id="fact")]}, thread(name))
            edit = HumanMessage("A canary: XYLOPHONE-4711", id="fact")
            graph.update_state(thread(name), {"messages": [edit]})
        counts = store.erase(session_id="erased")
        assert counts["messages"] == 3
        graph.checkpointer.delete_thread("deleted")
        store.add("cleared", [HumanMessage(SAID, id="m")])
        store.add("cleared", [HumanMessage("XYLOPHONE-4711", id="m")])
        store.clear("cleared")
        store.add("cleared", [HumanMessage("new", id="m")])
        assert texts(store.messages("cleared", include_superseded=True)) == ["new"]
    found = b"".join(p.read_bytes() for p in tmp_path.iterdir())
    assert b"XYLOPHONE" not in found
    assert RAW.encode() not in found


@pytest.mark.slow
@pytest.mark.parametrize("door", ["history", "runnable", "nodes", "middleware", "saver"])
def test_what_before_store_takes_out_is_never_stored(door, tmp_path):
    with TranscriptStore(f"sqlite:///{tmp_path}/memory.db") as store, Recall(store) as recall:
        memory = memory_of(recall, before_store=redacted)
        model = Scripted(answer=lambda _messages: "Noted.")
        said = HumanMessage(SAID, id="fact")
        if door == "history":
            TokenMemoryChatHistory("t", memory=memory, store=store).add_messages([said])
        elif door == "runnable":
            with_token_memory(model, memory, store).invoke([said], thread("t", session_id="t"))
        elif door == "nodes":
            builder = StateGraph(MemoryMessagesState)
            builder.add_node("model", lambda _state: {"messages": [AIMessage("Noted.")]})
            builder.add_edge(START, memory_nodes(builder, memory, before="model"))
            builder.compile().invoke({"messages": [said]}, thread("t"))
        elif door == "middleware":
            agent = create_agent(model, middleware=[TokenMemoryMiddleware(memory)])
            agent.invoke({"messages": [said]}, thread("t"))
        else:
            graph = chat(store, before_store=redacted)
            graph.invoke({"messages": [said]}, thread("t"))
            graph.invoke({"messages": [HumanMessage("Go on.", id="next")]}, thread("t"))
            assert graph.get_state(thread("t")).values["messages"][0].content == SAID
        assert store.get("t", "fact").content == redacted([said])[0].content
        assert RAW not in str(store.messages("t", include_superseded=True))
        assert "ann" not in terms_of(store)
        assert recall.search("customer", session_id="t")
    if door != "saver":  # its checkpoints give back what the graph put
        assert RAW.encode() not in b"".join(p.read_bytes() for p in tmp_path.iterdir())


def test_a_before_store_that_loses_a_message_is_refused_and_nothing_is_stored():
    with TranscriptStore("sqlite://") as store:
        memory = TokenMemory(before_store=lambda messages: messages[1:])
        history = TokenMemoryChatHistory("s", memory=memory, store=store)
        with pytest.raises(ConfigurationError, match="before_store"):
            history.add_messages([HumanMessage("a", id="a"), HumanMessage("b", id="b")])
        assert store.count("s") == 0


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
        graph.update_state(thread("t"), {"messages": [HumanMessage("word0 common", id="m0")]})
        tips = [graph.get_state(thread("t")).config] * 2
        at, number = 0, 1
        for kind, place in steps:
            held = graph.get_state(tips[at]).values["messages"]
            words = f"word{number} common"
            if kind == "switch":
                at = 1 - at
                continue
            if kind == "fork":
                past = list(graph.get_state_history(thread("t")))
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
            head = {m.id: m.content for m in graph.get_state(thread("t")).values["messages"]}
            shown = {m.id: m.content for m in store.messages("t")}
            hits = {h.message_id: h.text for h in recall.search("common", session_id="t", k=50)}
            assert shown.items() >= head.items()
            assert all(hits[key] == shown[key] for key in hits)
            assert on_remove == "keep" or shown.keys() == head.keys()
            indexed = {term for term in terms_of(store) if term.startswith("word")}
            assert indexed == {str(text).split()[0] for text in shown.values()}
            assert len(store.messages("t", include_superseded=True)) >= len(shown)

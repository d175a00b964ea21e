"""Nothing that was said is lost: not by folds and cuts, nor by what stops a turn half-way."""

import json
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.tools import tool

from langchain_tokenmem import (
    TokenMemory,
    TokenMemoryChatHistory,
    TokenMemorySaver,
    TranscriptStore,
)
from langchain_tokenmem.errors import ConfigurationError, CorruptStoreError
from tests.contract.chats import (
    Chat,
    Talker,
    Way,
    calling,
    in_thread,
    long_turns,
    texts,
    turns_of,
    ways,
)

PASTE = "".join(f"line {n} of the long paste\n" for n in range(600))
FOUND = "".join(f"row {n} of the long result\n" for n in range(600))


@tool
def fetch(name: str) -> str:
    """Fetch a table."""
    return FOUND


@tool
def count_up(name: str) -> str:
    """Count up."""
    return f"counted {name}"


LOOP = 14


@pytest.fixture
def place(url: str, tmp_path: Path) -> str:
    """Return a database that several stores can open."""
    return url if url != "sqlite://" else f"sqlite:///{tmp_path}/memory.db"


def small_memory(**keywords: Any) -> TokenMemory:
    return TokenMemory(2_000, background=False, **keywords)


def fetching(request: list[BaseMessage]) -> AIMessage | str:
    """Call the tool for a question that asks for it; else answer."""
    newest = request[-1]
    if not isinstance(newest, ToolMessage) and "Fetch" in newest.text:
        return calling("fetch", name="x")
    return f"Reply to {newest.text[:10]}."


def spoken(messages: list[BaseMessage]) -> list[tuple[str, str]]:
    return [(message.type, message.text.rstrip()) for message in messages]


async def test_the_transcript_has_every_word_and_every_id_after_folds_and_cuts(way: Way):
    chat = way.chat(small_memory(), model=Talker(answer=fetching), tools=[fetch], user="ann")
    asked = [PASTE, "Fetch the table.", *long_turns(5, words=350)]
    for number, question in enumerate(asked):
        await chat.ask(HumanMessage(question, id=f"h{number}"))
    assert chat.memory.budget.limit < chat.memory.count(chat.said()).tokens
    assert "Question 0" not in texts([m for m in chat.requests[-1] if m.type == "human"][1:])

    said = spoken(chat.reopened().said())
    assert [text for role, text in said if role == "human"] == [text.rstrip() for text in asked]
    assert [text for role, text in said if role == "tool"] == [FOUND.rstrip()]
    answers = [text for role, text in said if role == "ai"]
    assert len(answers) == len(asked) + 1, "an answer for each question, and one call"
    assert {f"Reply to {question[:10]}." for question in long_turns(5)} <= {*answers}
    if way.name == "by-hand":
        return
    for number, question in enumerate(asked):
        found = chat.store.get("t1", f"h{number}")
        assert found is not None
        assert found.text == question
    rows = chat.store.rows("t1", user_id="ann")
    assert [row.seq for row in rows] == [*range(1, len(said) + 1)]
    assert len({row.message.id for row in rows}) == len(said)
    assert FOUND in [row.message.content for row in rows]


async def test_a_failing_model_loses_nothing_and_the_next_turn_goes_on(way: Way):
    failing = [ConnectionError("provider down"), "Back again."]
    chat = way.chat(small_memory(), model=Talker(answer="Noted."))
    await chat.talk(2)
    before = spoken(chat.said())
    chat.model.answer = failing
    with pytest.raises(ConnectionError):
        await chat.ask("Are you there?")
    kept = spoken(chat.said())
    assert kept[: len(before)] == before
    assert kept[len(before) :] in ([], [("human", "Are you there?")])

    (request,) = await chat.ask("And now?")
    assert request[-1].text.endswith("And now?")
    said = spoken(chat.reopened().said())
    assert said[: len(kept)] == kept
    assert said[-2:] == [("human", "And now?"), ("ai", "Back again.")]


class Breaking(Talker):
    """Streams the first words of its answer, and breaks."""

    def _stream(self, *given: Any, **keywords: Any) -> Iterator[Any]:
        yield from [*super()._stream(*given, **keywords)][:3]
        raise ConnectionError("cut off")


@ways("chain", "middleware", "node", "nodes")
@pytest.mark.parametrize("stops", ["the model breaks", "the reader leaves"])
def test_a_stream_that_is_aborted_leaves_no_half_turn(way: Way, stops: str):
    answer = "Parcel 4711 is on its way."
    model = (Breaking if stops == "the model breaks" else Talker)(answer=answer)
    chat = way.chat(TokenMemory(4_000), model=model)
    given = chat.given([HumanMessage("Where is it?", id="m1")])
    how = {"stream_mode": "messages"} if chat.is_graph else {}
    stream = chat.runnable.stream(given, chat.config, **how)
    if stops == "the model breaks":
        with pytest.raises(ConnectionError):
            list(stream)
    else:
        next(stream)
        stream.close()
    before = texts(chat.reopened().said())
    assert before.count("Where is it?") == chat.is_graph, "a graph keeps the input at once"
    assert before.count("Parcel") in {0, before.count(answer)}

    chat = chat.also(model=Talker(answer=answer))
    for _ in chat.runnable.stream(given, chat.config, **how):
        pass
    assert texts(chat.said()).count("Where is it?") == 1
    assert answer in texts(chat.said())


async def test_a_failing_summarizer_takes_no_word_along(way: Way):
    def broken(*_: Any) -> str:
        raise ConnectionError("summarizer down")

    chat = way.chat(small_memory(summarizer=broken))
    questions = long_turns(6, words=360)
    for question in questions:
        (request,) = await chat.ask(question)
        assert question.rstrip() in request[-1].text
    said = spoken(chat.reopened().said())
    assert [text for role, text in said if role == "human"] == [q.rstrip() for q in questions]


@pytest.mark.slow
async def test_each_message_is_in_the_request_or_was_read_by_the_summarizer(way: Way):
    told: set[str] = set()

    def reading(messages: list[BaseMessage]) -> str:
        told.update(str(message.id) for message in messages)
        return "- Several things were said."

    chat = way.chat(small_memory(summarizer=reading), model=Talker(answer=fetching), tools=[fetch])
    for question in ["Hello.", "Fetch the table.", *long_turns(10, words=190)]:
        request = await chat.last(question)
        there = {str(message.id) for message in request}
        said = [str(m.id) for m in chat.said()[:-1]]  # the newest is the answer to this request
        assert [name for name in said if name not in there | told] == []
    assert len(told) > 10


@pytest.mark.slow
async def test_the_question_stays_in_view_through_a_long_tool_loop(way: Way):
    def looping(request: list[BaseMessage]) -> AIMessage | str:
        number = len(chat.requests)
        call = calling("count_up", f"c{number}", name=f"part {number} " + "x" * 400)
        return "Done." if number == LOOP else call

    chat = way.chat(small_memory(), model=Talker(answer=looping), tools=[count_up])
    await chat.ask(
        [HumanMessage("Hello."), AIMessage("Hi."), HumanMessage("Find the answer to QUOKKA-4711.")]
    )
    assert len(chat.requests) == LOOP
    assert "<conversation_summary" in texts(chat.requests[-1])
    for request in chat.requests:
        asked = [m.text for m in request if m.type == "human"]
        assert any(text.endswith("Find the answer to QUOKKA-4711.") for text in asked)


def test_a_list_that_is_sent_in_full_at_every_turn_is_stored_once(url: str):
    with TranscriptStore(url) as store:
        said: list[BaseMessage] = []
        for number in range(4):
            said += [HumanMessage(f"question {number}"), AIMessage(f"answer {number}")]
            store.add("t1", said)
        assert spoken(store.messages("t1")) == spoken(said)
        store.add("t1", [HumanMessage("question 3"), AIMessage("answer 3")])
        assert store.count("t1") == len(said) + 2, "who says the same again has said it twice"


def test_a_state_that_others_have_changed_meanwhile_is_not_written_over(url: str):
    with TranscriptStore(url) as store:
        history = TokenMemoryChatHistory("t1", memory=small_memory(), store=store)
        history.add_messages(turns_of(9, words=240))
        state = history.compact()
        version = store.state("t1").version
        assert not store.save_state("t1", {**state, "summary": None}, expected=version - 1)
        assert store.state("t1").state == state
        assert store.save_state("t1", state, expected=version)


def test_damage_of_a_message_is_an_error_and_never_a_shorter_history(tmp_path):
    file = tmp_path / "memory.db"
    said = [HumanMessage(f"message {number}", id=f"m{number}") for number in range(5)]
    with TranscriptStore(file) as store:
        store.add("t1", said)
        store.add("t2", said)
    for damage in (
        "UPDATE tokenmem_messages SET message = replace(message, '2', 'X') WHERE seq = 3",
        "DELETE FROM tokenmem_messages WHERE seq = 2",
    ):
        of_one = "session = (SELECT id FROM tokenmem_sessions WHERE thread_id = 't1')"
        copy = shutil.copy(file, tmp_path / "damaged.db")
        with closing(sqlite3.connect(copy)) as raw, raw:
            assert raw.execute(f"{damage} AND {of_one}").rowcount
        with TranscriptStore(copy) as store:
            with pytest.raises(CorruptStoreError):
                store.messages("t1")
            assert store.messages("t2") == said, "other sessions stay readable"


WRITERS, EACH = 4, 12


@pytest.mark.slow
def test_concurrent_writers_of_one_session_keep_every_message_and_its_order(place: str):
    start = threading.Barrier(WRITERS)

    def write(writer: int) -> None:
        with TranscriptStore(place) as store, small_memory() as memory:
            history = TokenMemoryChatHistory("t1", memory=memory, store=store)
            start.wait()
            for n in range(EACH):
                name = f"w{writer}-{n}"
                question = HumanMessage(f"question {name} " + "word " * 30, id=name)
                history.add_messages([question, AIMessage(f"answer {name}", id=f"{name}-answer")])
                assert history.messages

    with ThreadPoolExecutor(WRITERS) as pool:
        for done in [pool.submit(write, number) for number in range(WRITERS)]:
            done.result()
    with TranscriptStore(place) as store:
        rows = store.rows("t1")
    ids = [row.message.id for row in rows]
    assert len(ids) == len(set(ids)) == 2 * WRITERS * EACH
    assert [row.seq for row in rows] == [*range(1, len(ids) + 1)]
    assert [f"{name}-answer" for name in ids[::2]] == ids[1::2], "a turn was torn apart"
    for writer in range(WRITERS):
        mine = [name for name in ids[::2] if name.startswith(f"w{writer}-")]
        assert mine == [f"w{writer}-{n}" for n in range(EACH)]


def test_a_batch_is_stored_as_a_whole_or_not_at_all(url: str):
    with TranscriptStore(url) as store:
        store.add("t1", [HumanMessage("Before.", id="m0")])
        with pytest.raises(ConfigurationError):
            store.add("t1", [HumanMessage("Good.", id="m1"), RemoveMessage(id="m0")])
        assert [m.id for m in store.messages("t1")] == ["m0"]


def test_a_committed_summary_is_there_after_a_restart(place: str):
    with TranscriptStore(place) as store:
        history = TokenMemoryChatHistory("t1", memory=small_memory(), store=store)
        history.add_messages(turns_of(9, words=240))
        shown = spoken(history.messages)
        state = store.state("t1").state
        assert state is not None
        assert state["summary"] is not None
    with TranscriptStore(place) as store:
        again = TokenMemoryChatHistory("t1", memory=small_memory(), store=store)
        assert spoken(again.messages) == shown
        assert json.dumps(store.state("t1").state) == json.dumps(state)


def test_an_acknowledged_checkpoint_is_read_whole_by_another_process(place: str):
    way = Way("middleware", is_async=False, url=place)
    chats: list[Chat] = []
    for question in ("One.", "Two."):
        chat = way.chat(small_memory())
        chat.graph.invoke({"messages": question}, chat.config)  # type: ignore[attr-defined]
        chats.append(chat)
        chat.store.close()
    with TranscriptStore(place) as store:
        saver = TokenMemorySaver(store)
        found = saver.get_tuple(in_thread())
        assert found is not None
        held = found.checkpoint["channel_values"]["messages"]
        assert spoken(held) == spoken(store.messages("t1"))
        assert [text for _, text in spoken(held)] == ["One.", "Noted.", "Two.", "Noted."]

"""What was said is kept, and a session goes on, whatever stands in a message."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.tools import tool

from langchain_tokenmem import (
    Notebook,
    Recall,
    TokenBudget,
    TokenMemory,
    TranscriptStore,
)
from tests.contract.chats import Talker, Way, long_turns, texts

HALF = "\ud83d"
"""Half an emoji, as a stream that was cut or the JSON of a tool gives it."""


@pytest.fixture
def store(url: str) -> Any:
    with TranscriptStore(url) as store:
        yield store


@tool
def look_up(what: str) -> str:
    """Look something up."""
    return f"parcel 4711 {HALF} is late\n" * 20


def as_a_provider_does(request: list[BaseMessage]) -> None:
    """Write a request as UTF-8, which raises UnicodeEncodeError on half a surrogate pair."""
    sent = [m.model_dump(exclude={"response_metadata", "artifact"}) for m in request]
    json.dumps(sent, ensure_ascii=False).encode()


def answer(request: list[BaseMessage]) -> AIMessage | str:
    as_a_provider_does(request)
    call = {"name": "look_up", "args": {"what": f"parcel {HALF} 4711"}, "id": "c1"}
    asked = request[-1].type == "human" and "Never on Friday" in request[-1].text
    return AIMessage("", tool_calls=[call]) if asked else f"Noted. {'word ' * 40}"


def summary(request: list[BaseMessage]) -> str:
    as_a_provider_does(request)
    return f"- Never deliver parcel 4711 {HALF} on Friday."


async def test_a_session_goes_on_after_half_a_surrogate_pair(way: Way):
    await _talk_after_half_a_pair(way, "extractive")


@pytest.mark.parametrize("way", ["chain"], indirect=True)
async def test_a_model_that_summarizes_is_sent_no_half_of_a_surrogate_pair(way: Way):
    model = Talker(answer=summary)
    await _talk_after_half_a_pair(way, model)
    assert model.requests


async def _talk_after_half_a_pair(way: Way, summarizer: Any) -> None:
    def memory(store: TranscriptStore) -> TokenMemory:
        budget = TokenBudget(context_window=1_200)
        kept = {"background": False, "summarizer": summarizer, "mode": "code"}
        return TokenMemory(budget, recall=Recall(store), **kept)

    chat = way.chat(memory, model=Talker(answer=answer), tools=[look_up], system="A clerk.")
    said = HumanMessage(f"Never on Friday {HALF} deliver parcel 4711!", id="m1")
    await chat.ask(said)
    assert len(chat.requests) == 2
    for question in long_turns(7):
        await chat.ask(question)
    last = texts(await chat.last("When is parcel 4711 delivered?"))
    assert "Friday" in last
    assert "<conversation_summary " in last
    assert HALF in texts(chat.said()), "the transcript has what was said"


def test_every_place_that_takes_a_text_takes_half_a_surrogate_pair(store: TranscriptStore):
    recall = Recall(store)
    call = {"name": HALF, "args": {HALF: HALF}, "id": f"c{HALF}"}
    said = AIMessage(f"parcel {HALF} 4711", id="m", name=HALF, tool_calls=[call])
    store.add("s", [said])
    store.add("s", [said.model_copy(update={"content": f"parcel {HALF} 4712"})])
    assert store.get("s", "m", include_superseded=True).content == said.content  # type: ignore[union-attr]
    recall.add_documents(
        [Document(f"invoice {HALF} 17", metadata={HALF: HALF}, id="d")], session_id="s"
    )
    assert recall.search(f"invoice {HALF}", session_id="s")
    assert recall.search(HALF, session_id="s") == []
    assert recall.history_search(f"4712 {HALF}", session_id="s") == []
    assert recall.history_search("4712", session_id="s")
    notes = Notebook()
    notes.add(f"likes {HALF} tea", level="global", user_id="ann")
    assert notes.search(f"tea {HALF}", user_id="ann")


def test_turns_of_many_writers_are_all_kept_and_none_is_half(tmp_path: Any):
    """Several stores on one file, as several processes have them."""
    turns, writers = 6, 4

    def write(name: int) -> None:
        with TranscriptStore(tmp_path / "memory.db") as store:
            for number in range(turns):
                own = f"{name}-{number}"
                store.add("s", [HumanMessage(own, id=f"h{own}"), AIMessage(own, id=f"a{own}")])

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(write, range(writers)))
    with TranscriptStore(tmp_path / "memory.db") as store:
        said = [message.content for message in store.messages("s")]
    pairs = [said[at : at + 2] for at in range(0, len(said), 2)]
    assert all(one == two for one, two in pairs)
    assert sorted(one for one, _ in pairs) == sorted(
        f"{name}-{number}" for name in range(writers) for number in range(turns)
    )


async def test_a_turn_whose_model_fails_loses_nothing_of_the_others(way: Way):
    answers = ["Noted one.", ConnectionError("reset"), "Noted three.", "Noted four."]
    chat = way.chat(TokenMemory(TokenBudget(context_window=4_000)), model=Talker(answer=answers))
    await chat.ask("Parcel 1?")
    with pytest.raises(ConnectionError):
        await chat.ask("Parcel 2?")
    await chat.ask("Parcel 3?")
    last = texts(await chat.last("Parcel 4?"))
    words = ["Parcel 1?", "Noted one.", "Parcel 3?", "Noted three.", "Parcel 4?"]
    assert [last.count(word) for word in words] == [1] * len(words)
    assert [texts(chat.said()).count(word) for word in words] == [1] * len(words)


@pytest.mark.parametrize("way", ["chain", "middleware", "node"], indirect=True)
def test_a_stream_that_is_aborted_leaves_no_half_turn(way: Way):
    chat = way.chat(TokenMemory(4_000), model=Talker(answer="Parcel 4711 is on its way."))
    given: Any = [HumanMessage("Where is it?", id="m1")]
    runnable: Any = chat.graph if chat.is_graph else chat.chain  # type: ignore[attr-defined]
    how = {"stream_mode": "messages"} if chat.is_graph else {}
    stream = runnable.stream({"messages": given} if chat.is_graph else given, chat.config, **how)
    next(stream)
    stream.close()
    before = texts(chat.said())
    assert before.count("Where is it?") == chat.is_graph, "a graph keeps the input at once"
    assert before.count("Parcel") in {0, before.count("Parcel 4711 is on its way.")}
    for _ in runnable.stream({"messages": given} if chat.is_graph else given, chat.config, **how):
        pass
    assert texts(chat.said()).count("Where is it?") == 1
    assert "Parcel 4711 is on its way." in texts(chat.said())

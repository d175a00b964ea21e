"""A session goes on whatever stands in a message."""

import json
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.tools import tool

from langchain_tokenmem import Notebook, Recall, TokenMemory, TranscriptStore
from langchain_tokenmem.notes import SqlStore
from tests.contract.chats import Talker, Way, calling, texts, ways

HALF = "\ud83d"
"""Half an emoji, as a stream that was cut or the JSON of a tool gives it."""


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
    asked = request[-1].type == "human" and "Never on Friday" in request[-1].text
    call = calling("look_up", what=f"parcel {HALF} 4711")
    return call if asked else f"Noted. {'word ' * 40}"


def summary(request: list[BaseMessage]) -> str:
    as_a_provider_does(request)
    return f"- Never deliver parcel 4711 {HALF} on Friday."


@pytest.mark.slow
async def test_a_session_goes_on_after_half_a_surrogate_pair(way: Way):
    await _talk_after_half_a_pair(way, "extractive")


@pytest.mark.slow
@ways("chain")
async def test_a_model_that_summarizes_is_sent_no_half_of_a_surrogate_pair(way: Way):
    model = Talker(answer=summary)
    await _talk_after_half_a_pair(way, model)
    assert model.requests


async def _talk_after_half_a_pair(way: Way, summarizer: Any) -> None:
    def memory(store: TranscriptStore) -> TokenMemory:
        kept = {"background": False, "summarizer": summarizer, "mode": "code"}
        return TokenMemory(1_200, recall=Recall(store), **kept)

    chat = way.chat(memory, model=Talker(answer=answer), tools=[look_up], system="A clerk.")
    said = HumanMessage(f"Never on Friday {HALF} deliver parcel 4711!", id="m1")
    await chat.ask(said)
    assert len(chat.requests) == 2
    await chat.talk(7)
    last = texts(await chat.last("When is parcel 4711 delivered?"))
    assert "Friday" in last
    assert "<conversation_summary" in last
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
    notes = Notebook(SqlStore(store))
    notes.add(f"likes {HALF} tea", level="global", user_id="ann")
    assert notes.search(f"tea {HALF}", user_id="ann")

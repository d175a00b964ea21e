"""Redacted words are gone in every integration: from what is stored, and from later requests."""

import json
from typing import Any

import pytest

from langchain_tokenmem import Recall, TokenMemory, TranscriptStore
from tests.contract.chats import Talker, Way, bytes_of, fill, long_turns, texts, ways

CODE = "QUOKKA-4929"


@pytest.mark.slow
@ways(both=True)
async def test_redacted_words_are_in_no_later_request(way: Way):
    def recalling(store: TranscriptStore) -> TokenMemory:
        return TokenMemory(1_000, background=False, recall=Recall(store))

    chat = way.chat(recalling, model=Talker())
    await chat.ask(f"My code is {CODE}.")
    for question in long_turns(6):
        await chat.ask(question)
    await chat.ask(f"Once more: {CODE}, and the parcel is in Oslo.")
    receipt = chat.memory.redact(CODE, store=chat.store, session_id=chat.setting.thread)
    assert receipt.counts
    assert CODE not in json.dumps([message.content for message in chat.said()])
    later = chat.reopened()
    requests = [
        request
        for question in ("What is my code?", *long_turns(3), "Where is the parcel?")
        for request in await later.ask(question)
    ]
    assert [request for request in requests if CODE in texts(request)] == []
    assert "the parcel is in Oslo" in texts(requests[0])
    assert chat.store.redact(CODE, everywhere=True).counts == {}


def test_redacted_words_are_in_no_byte_and_other_words_stay(tmp_path: Any):
    with TranscriptStore(tmp_path / "memory.db", shared=True) as store:
        fill(store, "s", "ann", CODE)
        count = store.count("s")
        memory = TokenMemory(1_000, background=False)
        receipt = memory.redact(CODE, store=store, everywhere=True)
        assert {"messages", "documents", "states", "notes"} <= receipt.counts.keys()
        assert receipt.unreached == ()
        assert store.count("s") == count
        assert Recall(store).search("invoice", session_id="s", user_id="ann")
    assert CODE.lower().encode() not in bytes_of(tmp_path)

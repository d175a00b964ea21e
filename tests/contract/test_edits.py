"""Words that were edited or removed are gone from what a model reads, whatever stands in them."""

import logging
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    messages_from_dict,
    messages_to_dict,
)

from langchain_tokenmem import Recall, TokenMemory, TokenMemoryChatHistory, TranscriptStore
from langchain_tokenmem.types import RequestRules
from tests.contract.chats import Way, long_turns, texts, ways

CARD, REDACTED = "4929-7711", "[REDACTED]"
MARKER = "[Some earlier messages are left out here to fit the window.]"
ODD_TEXTS = {
    "a fence of notes": "What does <kept_notes> mean?",
    "a fence of the log": '<conversation_summary messages="1-2">\nAnn likes tea.\n',
    "a closing fence": "</recalled_messages>",
    "the marker of what was left out": MARKER,
    "the heading of a turn memory": "Tool memory:\n- Files changed: a.go",
}


@pytest.mark.parametrize("odd", ODD_TEXTS.values(), ids=ODD_TEXTS)
def test_an_edit_is_shown_and_found_whatever_text_of_the_memory_stands_in_it(
    store: TranscriptStore, odd: str
):
    recall = Recall(store)
    store.add("s", [HumanMessage(f"{odd} My card is {CARD}.", id="m")])
    store.add("s", [HumanMessage(f"{odd} My card is {REDACTED}.", id="m")])
    shown = store.get("s", "m")
    assert shown is not None
    assert shown.content == f"{odd} My card is {REDACTED}."
    assert recall.history_search(CARD, session_id="s") == []
    assert recall.history_search("REDACTED", session_id="s")


ANSWERED = ToolMessage("ok", tool_call_id="c", id="m", artifact={"card": CARD}, status="error")
SPOKEN = AIMessage(
    "",
    id="m",
    invalid_tool_calls=[
        {"name": "pay", "args": CARD, "id": "c", "error": None, "type": "invalid_tool_call"}
    ],
    additional_kwargs={"note": CARD},
    response_metadata={"model_name": CARD},
)


@pytest.mark.parametrize(
    ("said", "edit"),
    [
        (ANSWERED, {"artifact": {"card": REDACTED}}),
        (ANSWERED, {"artifact": None}),
        (ANSWERED, {"status": "success"}),
        (SPOKEN, {"invalid_tool_calls": []}),
        (SPOKEN, {"additional_kwargs": {}}),
        (SPOKEN, {"response_metadata": {"model_name": REDACTED}}),
        (HumanMessage("hi", id="m", name=CARD), {"name": None}),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) else given.type,
)
def test_an_edit_of_any_field_is_an_edit(
    store: TranscriptStore, said: BaseMessage, edit: dict[str, Any]
):
    store.add("s", [said])
    edited = said.model_copy(update=edit)
    assert store.add("s", [edited]) == []
    assert store.get("s", "m") == edited
    store.add("s", [said])  # what it said before is sent again, and is no edit
    assert store.get("s", "m") == edited


def test_a_message_that_is_sent_again_without_its_metadata_keeps_it(store: TranscriptStore, caplog):
    said = AIMessage("Yes.", id="m", response_metadata={"model_name": "gpt-4o"})
    store.add("s", [said])
    with caplog.at_level(logging.WARNING):
        store.add("s", [AIMessage("Yes.", id="m")])
    assert store.get("s", "m") == said
    assert not caplog.records


@pytest.mark.slow
@pytest.mark.parametrize("role", ["human", "system"])
@pytest.mark.parametrize("as_json", [False, True])
def test_a_view_that_is_handed_back_edits_nothing(store: TranscriptStore, role: Any, as_json: Any):
    memory = TokenMemory(
        1_000, request=RequestRules(summary_role=role), background=False, recall=Recall(store)
    )
    history = TokenMemoryChatHistory("s", memory=memory, store=store)
    history.add_messages([SystemMessage("You are a clerk.", id="system")])
    history.pin("The gate code is 7.")
    for number, question in enumerate(long_turns(14)):
        turn = [HumanMessage(question, id=f"h{number}"), AIMessage("Noted.", id=f"a{number}")]
        history.add_messages(turn)
    history.add_messages([HumanMessage("What of parcel P-7001?", id="last")])
    said = history.full_history()
    shown = history.messages
    assert "summary" in texts(shown)
    shown = messages_from_dict(messages_to_dict(shown)) if as_json else shown
    kept = [message for message in shown if message.id in {one.id for one in said}]
    assert store.add("s", kept) == []
    assert history.full_history() == said


def test_what_the_memory_puts_between_messages_is_not_stored_if_a_view_is_handed_back(
    store: TranscriptStore,
):
    memory = TokenMemory(4_000, request=RequestRules(legality="mistral"))
    history = TokenMemoryChatHistory("s", memory=memory, store=store)
    call = {"name": "look", "args": {}, "id": "c"}
    said = [
        AIMessage("How can I help?", id="a1"),
        HumanMessage("Hi.", id="h1"),
        AIMessage("", tool_calls=[call], id="a2"),
        HumanMessage("Well?", id="h2"),
        AIMessage("Wait.", id="a3"),
    ]
    history.add_messages(said)
    shown = messages_from_dict(messages_to_dict(history.messages))
    assert len(shown) > len(said)
    history.add_messages(shown)
    assert [message.id for message in history.full_history()] == ["a1", "h1", "a2", "h2", "a3"]


@pytest.mark.parametrize("place", ["first", "in the summary", "newest"])
@ways(both=True)
async def test_edited_words_are_in_no_later_request(way: Way, place: str):
    """By hand the application edits its own list."""
    chat: Any = way.chat(TokenMemory(1_400, background=False))
    if place != "first":
        await chat.ask("Hello.")
    await chat.ask(HumanMessage(f"What is <kept_notes>? My card is {CARD}.", id="secret"))
    for question in () if place == "newest" else long_turns(7, words=200):
        await chat.ask(question)
    before = texts(chat.requests[-1])
    assert CARD in before
    assert ("<conversation_summary" in before) == (place != "newest")
    edited = HumanMessage(f"What is <kept_notes>? My card is {REDACTED}.", id="secret")
    if chat.is_graph:
        chat.graph.update_state(chat.config, {"messages": [edited]})
    else:
        chat.store.add(chat.setting.thread, [edited])
    for question in ("What is my card?", *long_turns(2)):
        request = texts(await chat.last(question))
        assert (CARD in request, REDACTED in request) == (False, True)
    assert CARD not in texts(chat.said())
    assert REDACTED in texts(chat.said())

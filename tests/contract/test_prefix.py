"""Between two changes of its prefix each request begins with the one before, byte for byte.

Everything that the memory can put into a request is in play: system text, tools, a mode, a pin,
recalled messages, notes and summaries. A change of the prefix is reported as a `MemoryEvent`.
"""

from itertools import pairwise
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import tool

from langchain_tokenmem import Notebook, Recall, TokenMemory, TranscriptStore
from langchain_tokenmem.notes import SqlStore
from tests.contract.chats import Heard, Talker, Way, calling, long_turns, pin, texts, ways

TURNS = 8
PIN = "Never promise a date."
LOOKED_UP = "parcel {} weighs {} grams and lies in hall {}. "


@tool
def look_up(parcel: str) -> str:
    """Look a parcel up."""
    number = int(parcel.removeprefix("P-"))
    return LOOKED_UP.format(parcel, number * 3, number % 7) * 12


class Changes(Heard):
    """Counts the changes of a prefix, and notes how many there were at each request."""

    def __init__(self) -> None:
        super().__init__()
        self.at_request: list[int] = []

    @property
    def count(self) -> int:
        return sum(event.is_change for event in self.events)

    def model(self) -> Talker:
        def answer(request: list[BaseMessage]) -> AIMessage | str:
            self.at_request.append(self.count)
            if isinstance(request[-1], ToolMessage):
                return "We decided to send the parcels by train because trains are cheap."
            number = len(self.at_request)
            return calling("look_up", f"call-{number}", parcel=f"P-{7_000 + number % 9}")

        return Talker(answer=answer)


def as_sent(request: list[BaseMessage]) -> list[dict[str, Any]]:
    """Return what a provider reads of a request: all but ids and metadata."""
    return [m.model_dump(exclude={"id", "response_metadata", "usage_metadata"}) for m in request]


@pytest.mark.slow
@ways("by-hand", "middleware")
async def test_a_prefix_that_cannot_get_much_shorter_is_not_changed_at_every_turn(way: Way):
    changes = Changes()
    memory = TokenMemory(2_000, background=False, callbacks=[changes])
    chat = way.chat(memory, system="Rules: " + "word " * 1_100)
    await chat.talk(12, words=80)
    assert 1 <= changes.count <= 3


@pytest.mark.slow
@ways("by-hand", "history", "middleware")
async def test_the_summary_grows_at_its_end(way: Way):
    written: list[str] = []

    def writing(messages: list[BaseMessage]) -> str:
        written.append(f"- Entry {len(written)} tells of {len(messages)} messages.")
        return written[-1]

    memory = TokenMemory(2_000, summarizer=writing, background=False)
    chat = way.chat(memory)
    for question in long_turns(14, words=250):
        request = texts(await chat.last(question))
        places = [request.find(entry) for entry in written]
        assert -1 not in places
        assert places == sorted(places)
    assert len(written) >= 3


@pytest.mark.slow
async def test_each_request_begins_with_the_one_before_unless_a_change_was_reported(way: Way):
    writer = Talker(answer="## Progress\n- Parcels were looked up and sent by train.")
    changes = Changes()
    notes_store = TranscriptStore("sqlite://")
    notes = Notebook(SqlStore(notes_store))
    notes.add("Parcels to Lisbon go by train.", level="global", user_id="ann")

    def memory_on(store: TranscriptStore) -> TokenMemory:
        return TokenMemory(
            2_500,
            summarizer=writer if way.is_async else None,
            background=False,
            mode="reasoning",
            recall=Recall(store),
            notes=notes,
            callbacks=[changes],
        )

    system, parts = "You are a clerk.", ["<working_notes", "<conversation_summary"]
    chat = way.chat(memory_on, system=system, tools=[look_up], user="ann", model=changes.model())
    await chat.ask("Let us begin.")
    begun = len(chat.requests)
    if way.name != "by-hand":  # it has no store: nothing to recall, no notes, no pins
        pin(chat, PIN)
        parts += ["<recalled_messages", "<kept_notes", PIN]
    for number, question in enumerate(long_turns(TURNS, words=30)):
        asks = "What did we say of P-7001, the parcel to Lisbon?" if number % 5 == 4 else question
        await chat.ask(asks)
    notes_store.close()

    requests = [as_sent(request) for request in chat.requests]
    assert len(requests) == 2 * TURNS + begun
    moments = list(zip(requests, changes.at_request, strict=True))[begun:]
    changed = 0
    for (before, count), (after, later) in pairwise(moments):
        if later == count:
            assert after[: len(before)] == before
        changed += later != count
    assert 1 <= changed <= TURNS / 2, "a small window changes sometimes, and not with every turn"
    everything = "\n".join(texts(request) for request in chat.requests)
    for part in parts:
        assert part in everything
    assert all(request[0].text.startswith(system) for request in chat.requests)
    assert len({repr(k.get("tools")) for k in chat.model.keywords}) == 1

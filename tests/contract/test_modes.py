"""Modes read what they say they read, and a session can be switched between them."""

from __future__ import annotations

from langchain_core.messages import HumanMessage

from langchain_tokenmem import ModeProfile, TokenMemory, TokenMemoryChatHistory, TranscriptStore
from tests.contract.chats import Talker, Way

PLAN = """\
Decision: use SQLite for the cache.
Rationale: it needs no server.
Alternatives rejected: Postgres, MySQL

Assumptions:
- The API is stable until May
- Each user has one account

We assume that a parcel weighs under 30 kg."""


async def test_reasoning_reads_alternatives_and_listed_assumptions(way: Way):
    memory = TokenMemory(4_000, mode="reasoning", background=False)
    chat = way.chat(memory, model=Talker(answer=[PLAN, "Noted."]))
    await chat.ask("Plan the cache.")
    notes = (await chat.last("Go on."))[-1].text
    assert "it needs no server. Rejected: Postgres, MySQL" in notes
    for assumed in ("The API is stable until May", "Each user has one account", "under 30 kg"):
        assert assumed in notes.partition("Assumptions:")[2]


def test_a_session_is_switched_between_profiles_of_the_application():
    names = ("support", "billing", "returns")
    support, billing, returns = (
        ModeProfile(n, window=20, sections=("facts",), system_text=f"Mode {n}.") for n in names
    )
    memory = TokenMemory(4_000, mode=support, modes=[billing, returns])
    said = [HumanMessage("Hello.", id="h")]
    assert memory.view(said).messages[0].text == "Mode support."
    for name in ("billing", "returns", "support"):
        state = memory.compact(said, mode=name)
        assert memory.view(said, state).messages[0].text == f"Mode {name}."
    with TranscriptStore("sqlite://") as store:
        history = TokenMemoryChatHistory("s", memory=memory, store=store)
        history.set_mode("returns")
        history.add_messages(said)
        assert history.messages[0].text == "Mode returns."

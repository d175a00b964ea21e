"""Modes show what a conversation is about, and turn memory what a turn did once it is hidden."""

import re
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool

from langchain_tokenmem import TokenBudget, TokenMemory, TokenMemoryChatHistory, TranscriptStore
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.modes import ModeProfile, ToolKinds, TurnMemorySettings
from tests.contract.chats import Talker, Way, calling, long_turns, texts, ways, wordless

TALK = {
    "conversation": ("My name is Ada Lovelace and I live in Lisbon.", ("Ada Lovelace", "Lisbon")),
    "code": (
        "Please fix the login in src/app.py now.",
        ("Task: Please fix the login in src/app.py", "src/app.py"),
    ),
    "reasoning": (
        "We must stay under 300 EUR. We decided to use SQLite because it is simple.",
        ("300 EUR", "#1 use SQLite", "Rationale: it is simple"),
    ),
}


@tool
def edit_file(path: str) -> str:
    """Edit a file."""
    return "ok"


@tool
def bash(command: str) -> str:
    """Run a command."""
    lines = "".join(f"{command} line {n}\n" for n in range(75))
    return f"{lines}Exit code: {1 if 'test' in command else 0}"


def memory_of(mode: str | None = None, **keywords: Any) -> TokenMemory:
    return TokenMemory(2_600, background=False, mode=mode, summarizer=wordless, **keywords)


def notes_in(request: list[BaseMessage], mode: str) -> str:
    """Return the working notes that a request shows: none is shown twice, so of all questions."""
    found = re.findall(
        f'<working_notes mode="{mode}">(.*?)</working_notes>', texts(request), re.DOTALL
    )
    return "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("mode", TALK)
async def test_a_mode_shows_its_notes_beside_the_question_once_the_words_are_hidden(
    way: Way, mode: str
):
    said, noted = TALK[mode]
    chat = way.chat(memory_of(mode))
    await chat.ask("Hello.")
    await chat.ask(said)
    await chat.talk(2, words=1_000)
    request = await chat.last("Where were we?")
    assert not any(m.text.endswith(said) for m in request), "the words themselves are folded"
    notes = notes_in(request, mode)
    for note in noted:
        assert note in notes
    assert "<working_notes" not in texts(chat.reopened().said()), "notes are never stored"


async def test_without_a_mode_nothing_is_noted(way: Way):
    chat = way.chat(memory_of())
    for said, _ in TALK.values():
        assert "<working_notes" not in texts(await chat.last(said))


@pytest.mark.slow
@ways("chain", "middleware", "node", both=True)
async def test_a_session_can_be_switched_to_another_mode_and_keeps_its_notes(way: Way):
    chat = way.chat(memory_of("code"))
    for said, _ in TALK.values():
        await chat.ask(said)
    assert "src/app.py" in notes_in(await chat.last("Go on."), "code")

    config = chat.config
    config["configurable"]["memory_mode"] = "reasoning"
    await chat.invoke("And the plan?", config)
    assert "#1 use SQLite" in notes_in(chat.requests[-1], "reasoning")
    request = await chat.reopened().last("What else?")
    assert "#1 use SQLite" in notes_in(request, "reasoning"), "the switch outlives the process"

    config["configurable"]["memory_mode"] = "coding"
    with pytest.raises(ConfigurationError, match="no mode 'coding'"):
        await chat.invoke("And the plan?", config)


def test_a_chat_history_is_switched_by_a_method():
    with TranscriptStore("sqlite://") as store:
        history = TokenMemoryChatHistory("t1", memory=memory_of("code"), store=store)
        history.add_messages([HumanMessage(TALK["reasoning"][0]), AIMessage("Noted.")])
        history.set_mode("reasoning")
        history.add_messages([HumanMessage("And?")])
        assert "#1 use SQLite" in notes_in(history.messages, "reasoning")
        history.set_mode(None)
        assert "<working_notes" not in texts(history.messages)
        with pytest.raises(ConfigurationError, match="'conversation', 'code', 'reasoning'"):
            history.set_mode("coding")


def working(request: list[BaseMessage]) -> AIMessage | str:
    """Edit two files and run the tests for the first question; then only answer."""
    newest = request[-1]
    if isinstance(newest, ToolMessage):
        given = [("bash", {"command": "go test ./..."}), ("bash", {"command": "ls"})]
    elif "Make the tests pass" in newest.text:
        given = [("edit_file", {"path": "b.go"}), ("edit_file", {"path": "a.go"})]
    else:
        return "Noted."
    calls = [calling(n, f"{n}{i}", **args).tool_calls[0] for i, (n, args) in enumerate(given)]
    is_done = getattr(newest, "name", None) == "bash"
    return "Done." if is_done else AIMessage("", tool_calls=calls)


@pytest.mark.slow
async def test_turn_memory_tells_files_and_failures_once_the_calls_are_hidden(way: Way):
    memory = TokenMemory(TokenBudget(context_window=2_400, target=0.6), background=False)
    chat = way.chat(memory, model=Talker(answer=working), tools=[edit_file, bash])
    await chat.ask("Hello.")
    requests = await chat.ask("Make the tests pass.")
    assert len(requests) == 3
    assert "Tool memory:" not in texts(requests[-1]), "the calls themselves are there"

    memories = set()
    for question in long_turns(8, words=140):
        request = await chat.last(question)
        assert "Tool memory:" not in texts([m for m in request if getattr(m, "tool_calls", None)])
        calls_shown = any(getattr(m, "tool_calls", None) for m in request)
        answer = next((m.text for m in request if m.text.startswith("Done.")), None)
        if answer is None:
            break
        assert ("Tool memory:" in answer) != calls_shown
        memories.add(answer.strip())
    told = "- Files changed: b.go, a.go\n- Failed bash: go test ./... (exit 1)"
    assert memories == {"Done.", f"Done.\n\nTool memory:\n{told}"}
    assert "Tool memory" not in texts(chat.reopened().said()), "it is never stored as words"


@pytest.mark.parametrize(
    ("shown", "there"), [("always", True), ("never", False), ("when_hidden", True)]
)
def test_turn_memory_is_shown_as_it_was_asked_for(shown: Any, there: bool):  # noqa: FBT001
    turn = [
        HumanMessage("Write it down.", id="h1"),
        calling("save_page", page="/app/wiki/notes.md"),
        ToolMessage("saved", tool_call_id="c1", id="r1"),
        AIMessage("Saved.", id="a2"),
        HumanMessage("And?", id="h2"),
    ]
    memory = TokenMemory(
        turn_memory=TurnMemorySettings(
            tools=ToolKinds(writes={"save_page": "page"}), project_root="/app", shown=shown
        )
    )
    state = memory.compact(turn)
    assert state["turns"]["done"]["a2"]["files_changed"] == ["wiki/notes.md"]
    without_calls = [turn[0], *turn[3:]]
    view = memory.view(turn if shown == "always" else without_calls, state)
    assert ("Files changed: wiki/notes.md" in texts(view.messages)) == there


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
    support, billing = (
        ModeProfile(name, window=20, sections=("facts",), system_text=f"Mode {name}.")
        for name in ("support", "billing")
    )
    memory = TokenMemory(4_000, mode=support, modes=[billing])
    said = [HumanMessage("Hello.", id="h")]
    assert memory.view(said).messages[0].text == "Mode support."
    state = memory.compact(said, mode="billing")
    assert memory.view(said, state).messages[0].text == "Mode billing."

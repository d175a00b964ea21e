"""States, budgets and turns that the tests of the store share."""

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.state import STATE_VERSION, MemoryState, SummaryEntry, new_state


def state(covers_to: str, *kept: str, text: str = "So far.") -> MemoryState:
    """A state whose summary covers everything up to one message."""
    entry: SummaryEntry = {
        "id": "e1",
        "text": text,
        "first": "743116",
        "last": 1,
        "covered": 1,
        "since": None,
        "until": None,
        "last_ids": [covers_to],
        "tokens": 2,
        "model": "extractive",
        "prompt_version": "1",
        "reason": "limit",
        "created_at": "2026-11-21T12:00:00+00:00",
        "failures": [],
    }
    return {
        "version": STATE_VERSION,
        "summary": {"entries": [entry], "covers_to": covers_to, "covered": 1},
        "kept": list(kept),
        "blocks": {"h1": {"text": "", "ids": []}},
        "stored_to": None,
        "pruned": [],
        "cuts": {"x": {"head": 1, "tail": 2}},
        "totals": new_state()["totals"],
    }


def save_state(store: TranscriptStore, session: str, new: MemoryState) -> None:
    """Store a state on top of the one that a session has."""
    assert store.save_state(session, new, expected=store.state(session).version)


def turn(number: int | str, results: int = 0) -> list[BaseMessage]:
    """A turn whose messages have ids: a question, a call with its results, an answer."""
    calls = [
        {"name": "look", "args": {"n": i}, "id": f"c{number}-{i}", "type": "tool_call"}
        for i in range(results)
    ]
    middle: list[BaseMessage] = []
    if calls:
        middle = [
            AIMessage("", tool_calls=calls, id=f"k{number}"),
            *(
                ToolMessage(f"r{i}", tool_call_id=call["id"], id=f"t{number}-{i}")
                for i, call in enumerate(calls)
            ),
        ]
    return [
        HumanMessage(f"question {number}", id=f"h{number}"),
        *middle,
        AIMessage(f"answer {number}", id=f"a{number}"),
    ]


def texts(messages: list[BaseMessage]) -> list[object]:
    return [message.content for message in messages]

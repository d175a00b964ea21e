"""Whatever words are redacted, digits and names of fields among them, everything can be read."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool

from langchain_tokenmem import (
    Notebook,
    Recall,
    TokenMemory,
    TokenMemoryChatHistory,
    TokenMemoryMiddleware,
    TokenMemorySaver,
    TranscriptStore,
)
from langchain_tokenmem.graphs import pin_update
from langchain_tokenmem.notes import SqlStore
from tests.contract.chats import Talker
from tests.strategies import conversations

WORDS = [
    *("12", "text", "type", "id", "human", "memory", "code", "ann", "Elm Street 12"),
    *map(re.compile, (r"\d+", r"[A-Za-z]\w+", r"\b\d{3}\b", r"\d{4}-\d\d-\d\d", r"[0-9a-f]{4}")),
]
OTHERS = ["mode", "name", "error", "success", "args", "word", "c1", "q", "end", "what-is-this", "s"]


def is_in(what: str | re.Pattern[str], text: str) -> bool:
    return re.search(re.escape(what) if isinstance(what, str) else what, text) is not None


def shown(messages: list[Any]) -> list[str]:
    """Return the texts of messages, and what the calls in them say."""
    calls = [call for one in messages for call in getattr(one, "tool_calls", ())]
    values = [value for call in calls for value in call["args"].values()]
    return [one.text for one in messages] + [value for value in values if isinstance(value, str)]


@pytest.mark.slow
@given(conversations(), st.sampled_from([*WORDS, *OTHERS]))
def test_a_transcript_can_be_read_and_loses_the_words(given: Any, what: Any):
    with TranscriptStore("sqlite://", shared=True) as store:
        store.add("s", given)
        kinds = [one.type for one in store.messages("s")]
        store.redact(what, "*", everywhere=True)
        found = store.messages("s")
        assert [one.type for one in found] == kinds
        assert [one for one in shown(found) if is_in(what, one)] == []


@tool
def lookup(q: str) -> str:
    """Look something up."""
    return f"record 123 of {q}: Elm Street 12, code 0."


def answer(messages: list[Any]) -> AIMessage:
    if messages[-1].type != "human":
        return AIMessage("It is Elm Street 12, born 1980-01-02.")
    args = {"q": "Elm Street 12"}
    return AIMessage("Looking.", tool_calls=[{"name": "lookup", "args": args, "id": "call_12"}])


CONFIG = {"configurable": {"thread_id": "t12", "user_id": "ann"}}


class Everything:
    """An application on a file, with an agent, a history, documents and notes."""

    def __init__(self, folder: Path) -> None:
        self.store = TranscriptStore(folder / "memory.db")
        self.notes = Notebook(SqlStore(self.store), project="shop")
        recall = Recall(self.store, scope="user")
        options: dict[str, Any] = {"background": False, "mode": "code", "notes": self.notes}
        self.memory = memory = TokenMemory(1_500, recall=recall, **options)
        self.history = TokenMemoryChatHistory("s1", memory=memory, store=self.store, user_id="ann")
        kept: Any = {"middleware": [TokenMemoryMiddleware(memory)]}
        saver = TokenMemorySaver(self.store)
        self.agent = create_agent(Talker(answer=answer), [lookup], checkpointer=saver, **kept)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filled")
    app = Everything(folder)
    app.notes.add("Likes green tea, 12 cups.", level="global", key="Tea", user_id="ann")
    app.notes.add("Deploy to Elm Street 12.", user_id="ann", tags=["text 123"])
    for n in range(8):
        said = f"We decided on type {n}, not on text 123. I live at Elm Street 12. " * 3
        app.history.add_messages([HumanMessage(said), AIMessage("Noted, 1980-01-02.")])
        assert app.history.messages
    app.history.pin("Elm Street 12, code 123")
    app.agent.invoke({"messages": "The mode is text, at Elm Street 12."}, CONFIG)
    app.agent.update_state(CONFIG, pin_update("Elm Street 12"))
    app.agent.update_state(CONFIG, {"memory_mode": "code"})
    app.agent.invoke({"messages": "And now, human 12?"}, CONFIG)
    app.memory.recall.add_documents([Document("invoice 123 of text")], user_id="ann")
    app.store.close()
    return folder


KEPT_TEXTS = {"text", "notes", "rationale", "rejected", "command", "files_changed"}


def texts_in(state: Any, key: str = "") -> Iterator[str]:
    """Return the texts of a state that come from the conversation."""
    if isinstance(state, dict):
        for name, value in state.items():
            yield from texts_in(value, name)
    elif isinstance(state, list):
        for value in state:
            yield from texts_in(value, key)
    elif key in KEPT_TEXTS and isinstance(state, str):
        yield state


@pytest.mark.slow
@pytest.mark.parametrize("what", WORDS, ids=str)
def test_everything_can_be_read_and_loses_the_words(filled: Path, tmp_path: Path, what: Any):
    shutil.copytree(filled, tmp_path / "copy")
    app = Everything(tmp_path / "copy")
    pins = [pin["id"] for pin in app.history.pins()]
    app.memory.redact(what, "*", user_id="ann")
    said = shown(app.history.full_history())
    said += [pin["text"] for pin in app.history.pins()]
    said += texts_in(app.store.state("s1", user_id="ann").state)
    assert [pin["id"] for pin in app.history.pins()] == pins
    kept = app.notes.list(user_id="ann")
    assert sorted(note.key or "" for note in kept) == ["", "Tea"]
    said += [text for note in kept for text in (note.content, *note.tags)]
    states = [*app.agent.get_state_history(CONFIG)]
    for one in states:
        said += shown(one.values.get("messages", []))
        said += [pin["text"] for pin in (one.values.get("token_memory_pins") or {}).values()]
        assert one.metadata["user_id"] == "ann"
    found = app.memory.recall.search("invoice", session_id="s1", user_id="ann")
    said += [one.text for one in found]
    assert [text for text in said if is_in(what, text)] == []
    assert [*app.agent.checkpointer.list(None, filter={"user_id": "ann"})]
    assert app.agent.checkpointer.examine().findings == ()
    assert app.history.messages
    asked = len(states[0].values["messages"])
    assert len(app.agent.invoke({"messages": "Go on."}, CONFIG)["messages"]) > asked
    app.store.close()

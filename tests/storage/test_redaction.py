"""Words that were redacted are in no row, state, checkpoint, note or byte of the files."""

import re
import shutil
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, TypedDict
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt
from pydantic import BaseModel

from langchain_tokenmem import (
    Notebook,
    Recall,
    TokenMemory,
    TokenMemoryChatHistory,
    TokenMemoryMiddleware,
    TokenMemorySaver,
    TranscriptStore,
)
from langchain_tokenmem.errors import ConfigurationError, RedactionError, ScopeError
from langchain_tokenmem.graphs import pin_update
from langchain_tokenmem.notes import SqlStore
from langchain_tokenmem.storage.redactor import Redactor
from tests.adapters.integrations import thread
from tests.contract.chats import Talker, bytes_of
from tests.storage.samples import graph_on, save_state, state, texts
from tests.strategies import conversations

CARD = "4111-2222-Quokka"
LONG = "".join(map(str, range(400)))  # a value that has a row of its own


def leaks(folder: Path) -> list[str]:
    """Return the words of the card that the files still have; its terms in the index are lower."""
    return [form for form in (CARD, "Quokka") if form.lower().encode() in bytes_of(folder)]


class State(TypedDict):
    messages: Annotated[list, add_messages]
    form: Any


def answer(state: State) -> dict[str, Any]:
    call = {"name": "pay", "args": {"id": CARD, "n": 42}, "id": "c1"}
    thought = {"type": "thinking", "thinking": f"It is {CARD}.", "signature": "s"}
    said = [
        AIMessage([thought, {"type": "text", "text": CARD}], tool_calls=[call]),
        ToolMessage(f"paid with {CARD}", tool_call_id="c1", id=f"t{len(state['messages'])}"),
        AIMessage("Done."),
    ]
    return {"messages": said, "form": {CARD: [{"card": (CARD, {LONG: CARD})}]}}


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_a_thread_is_redacted_in_all_of_its_checkpoints_and_forks(file_store, tmp_path, durability):
    graph, config = graph_on(file_store, answer, State), thread("t")
    for text in (f"Pay by {CARD}.", "Again."):
        graph.invoke({"messages": [HumanMessage(text)]}, config, durability=durability)
    old = [*graph.get_state_history(config)][-1].config
    graph.update_state(old, {"messages": [HumanMessage(f"Fork {CARD}.")]})
    receipt = file_store.redact(CARD, session_id="t")
    assert receipt.unreached == ()
    assert {"messages", "checkpoint_values"} <= receipt.counts.keys()
    states = [*graph_on(file_store, answer, State).get_state_history(config)]
    assert [one for one in states if CARD in str(one)] == []
    _, called, result, *_ = max((s.values.get("messages", []) for s in states), key=len)
    assert called.content == [{"type": "text", "text": "[redacted]"}]
    assert called.tool_calls[0]["args"] == {"id": "[redacted]", "n": 42}
    assert called.tool_calls[0]["id"] == result.tool_call_id == "c1"
    assert leaks(tmp_path) == []
    before = file_store.count("t")
    graph.update_state(config, {"messages": [HumanMessage("Thanks.")]})
    assert file_store.count("t") == before + 1


def test_an_encrypted_thread_needs_the_serializer_of_its_saver(store):
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"0" * 16)
    graph = graph_on(store, answer, State, serde=serde)
    graph.invoke({"messages": [HumanMessage(CARD)]}, thread("t"))
    assert store.redact(CARD, session_id="t").unreached != ()
    assert CARD in str(graph.get_state(thread("t")))
    assert store.redact(CARD, session_id="t", serde=serde).unreached == ()
    assert CARD not in str(graph.get_state(thread("t")))


def test_only_the_scope_is_redacted_and_blocks_that_quote_it_go(store: TranscriptStore):
    for session, user in (("a", "ann"), ("a2", "ann"), ("b", "bob")):
        store.add(session, [HumanMessage(CARD, id=f"m-{session}")], user_id=user)
    quoting = {**state("m-a2"), "blocks": {"h": {"text": "said so", "ids": ["m-a"]}}}
    assert store.save_state("a2", quoting, expected=store.state("a2").version)
    before = store.revision("a2")
    would = store.redact(CARD, session_id="a", user_id="ann", dry_run=True)
    assert would.is_dry_run
    assert texts(store.messages("a")) == [CARD]
    assert store.redact(CARD, session_id="a", user_id="ann").counts == would.counts
    assert texts(store.messages("a")) == ["[redacted]"]
    assert texts(store.messages("a2")) == [CARD]
    assert store.state("a2").state["blocks"] == {}
    assert store.revision("a2") != before
    store.redact(CARD, user_id="ann")
    assert texts(store.messages("a2")) == ["[redacted]"]
    assert texts(store.messages("b")) == [CARD]
    store.redact(re.compile(r"\d{4}-2+"), everywhere=True)
    assert texts(store.messages("b")) == ["[redacted]-Quokka"]


def test_a_state_that_was_read_before_is_not_committed_after(store: TranscriptStore):
    store.add("s", [HumanMessage(CARD, id="m")])
    held = store.state("s")
    store.redact(CARD, everywhere=True)
    assert not store.save_state("s", state("m", text=CARD), expected=held.version)


NOTE = {"text": "Plain.", "turn": 1, "source": "a12f03", "by": "tool"}
NUMBERS = {"turn": 1, "next_number": 1, "changed": {"task": 1}}
NO_OUTCOME: dict[str, Any] = {"files_changed": [], "failed_commands": []}
FAILED = {"command": CARD, "exit_code": 1}


def modes(names: dict[str, int] | None = None, **item: Any) -> dict[str, Any]:
    """Return the part of a state that has working notes."""
    notes: Any = {"sections": {"task": [{**NOTE, **item}]}, "names": names or {}}
    return {"modes": {"mode": "code", "read_to": ["m"], **notes, **NUMBERS}}


def turns(**outcome: Any) -> dict[str, Any]:
    """Return the part of a state that has what was done in turns."""
    return {"turns": {"done": {"m": {**NO_OUTCOME, **outcome}}, "running": NO_OUTCOME, "calls": {}}}


def block(**fields: Any) -> dict[str, Any]:
    return {"blocks": {"h": {"text": "", "ids": [], **fields}}}


PARTS: list[dict[str, Any]] = [
    {"pins": [{"id": "pin_0123abcd", "text": CARD, "by": "tool", "source": "a12f03"}]},
    *(block(text=CARD), block(notes=CARD), block(sections={"task": [CARD]}), block(named=[CARD])),
    *(modes(text=CARD), modes(key=CARD), modes(rationale=CARD), modes(rejected=[CARD])),
    *(modes({CARD: 3}), turns(files_changed=[CARD]), turns(failed_commands=[FAILED])),
]


def test_no_text_of_a_state_keeps_the_words(store: TranscriptStore):
    for number, part in enumerate(PARTS):
        store.add(f"s{number}", [HumanMessage("Hi.", id="m")])
        save_state(store, f"s{number}", {**state("m"), **part})
    assert store.redact(CARD, everywhere=True).counts == {"states": len(PARTS)}
    kept = [str(store.state(f"s{number}").state) for number in range(len(PARTS))]
    assert [text for text in kept if CARD in text] == []
    assert store.redact(CARD, everywhere=True).counts == {}


def test_an_interrupt_can_be_resumed_by_its_id(store: TranscriptStore):
    graph = graph_on(store, lambda _: {"form": interrupt(f"Still {CARD}?")}, State)
    graph.invoke({"form": ""}, thread("t"))
    store.redact(re.compile(r"\d+-?"), "*", everywhere=True)
    (asked,) = graph.get_state(thread("t")).interrupts
    assert asked.value == "Still **Quokka?"
    assert graph.invoke(Command(resume={asked.id: "yes"}), thread("t"))["form"] == "yes"


def test_only_ids_that_an_application_chose_are_reported(store: TranscriptStore):
    store.add("s", [HumanMessage("hi"), AIMessage("yes", id=f"lc_run--{uuid4()}-0")])
    store.add(str(uuid4()), [HumanMessage("hi")])
    assert store.redact(re.compile(r"[0-9a-f]+"), "*", everywhere=True).unreached == ()
    store.add("ann-12", [HumanMessage("hi", id="card-12")], user_id="user-12")
    assert store.redact("12", everywhere=True).unreached == (
        "1 ids of messages that hold the words",
        "1 ids of sessions and users that hold the words",
    )


def test_names_of_fields_are_kept_and_reported(store: TranscriptStore):
    store.add("s", [HumanMessage([{"type": "text", "text": "a text"}])])
    receipt = store.redact("text", everywhere=True)
    assert texts(store.messages("s")) == [[{"type": "text", "text": "a [redacted]"}]]
    assert receipt.unreached == ("1 values that hold the words in a form that cannot be changed",)


def test_wrong_use_is_refused_and_nothing_is_changed(store: TranscriptStore):
    store.add("s", [HumanMessage("hi there")], user_id="ann")
    one = {"session_id": "s"}
    for scope in ({}, {**one, "everywhere": True}, {**one, "user_id": "bob"}):
        with pytest.raises(ScopeError):
            store.redact("hi", **scope)
    for words in (("",), ("hi", "hi!"), (re.compile("x*"),), (7,)):
        with pytest.raises(ConfigurationError):
            store.redact(*words, everywhere=True)
    assert texts(store.messages("s")) == ["hi there"]


def test_words_that_come_back_are_an_error(store: TranscriptStore, monkeypatch: pytest.MonkeyPatch):
    store.add("s", [HumanMessage(CARD)])
    rewrite = store.database.rewrite

    def written_meanwhile() -> str | None:
        store.add("s", [HumanMessage(f"again {CARD}")])
        return rewrite()

    monkeypatch.setattr(store.database, "rewrite", written_meanwhile)
    with pytest.raises(RedactionError, match="messages 1"):
        store.redact(CARD, everywhere=True)


def test_superseded_wordings_are_purged_and_what_a_checkpoint_has_stays(file_store, tmp_path):
    file_store.add("s", [HumanMessage(f"old {CARD}", id="m")])
    file_store.add("s", [HumanMessage("new", id="m")])
    receipt = file_store.purge_superseded(session_id="s")
    assert (receipt.counts, receipt.unreached) == ({"messages": 1}, ())
    assert texts(file_store.messages("s", include_superseded=True)) == ["new"]
    assert leaks(tmp_path) == []
    graph = graph_on(file_store)
    graph.invoke({"messages": [HumanMessage("one", id="h")]}, thread("t"))
    graph.update_state(thread("t"), {"messages": [HumanMessage("two", id="h")]})
    receipt = file_store.purge_superseded(everywhere=True)
    assert (receipt.counts, len(receipt.unreached)) == ({}, 1)
    assert [*graph.get_state_history(thread("t"))][-1] is not None


class Form(BaseModel, extra="allow"):
    text: str
    page: int = 1

    @cached_property
    def size(self) -> int:
        return len(self.text)


def test_a_redacted_model_has_no_more_fields_than_before():
    form = Form(text="Ann Smith", own="Ann")
    assert form.size == 9
    redacted = Redactor("Ann").value(form)
    assert redacted.model_dump() == {"text": "[redacted] Smith", "page": 1, "own": "[redacted]"}
    assert redacted.model_fields_set == form.model_fields_set == {"text", "own"}


def test_no_value_is_lost_where_two_keys_are_redacted_alike():
    prices = {"Ann Smith": 1, "[redacted]": 2, "Ann Smith 2": 3, "Bob": 4}
    redacted = Redactor(re.compile(r"Ann Smith( \d)?")).channel("prices", prices)
    assert redacted == {"[redacted] (2)": 1, "[redacted]": 2, "[redacted] (3)": 3, "Bob": 4}
    assert Redactor("Ann").item({"Ann": 1, "[redacted]": 2}) == {
        "[redacted] (2)": 1,
        "[redacted]": 2,
    }


# Whatever words are redacted, digits and names of fields among them, everything can be read


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


def answered(messages: list[Any]) -> AIMessage:
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
        self.agent = create_agent(Talker(answer=answered), [lookup], checkpointer=saver, **kept)


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

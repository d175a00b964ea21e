"""Erasing of everything that a memory keeps of a user or a session, in all of its stores."""

import asyncio
import re
from dataclasses import replace

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.store.memory import InMemoryStore

from langchain_tokenmem import (
    Notebook,
    Recall,
    TokenBudget,
    TokenMemory,
    TokenMemoryChatHistory,
    TranscriptStore,
)
from langchain_tokenmem.core.thread_names import thread_session
from langchain_tokenmem.errors import ConfigurationError, RecallError, ScopeError
from langchain_tokenmem.notes import JsonStore, SqlStore
from tests.adapters.integrations import turns
from tests.fakes import memory_of

WORDS = "the blue harbour"


@pytest.fixture
def transcripts(tmp_path):
    with TranscriptStore(f"sqlite:///{tmp_path}/memory.db", shared=True) as store:
        yield store


@pytest.fixture(params=["json", "sql", "in memory"])
def note_store(request, tmp_path, transcripts):
    if request.param == "json":
        with JsonStore(tmp_path / "notes") as store:
            yield store
    else:
        yield SqlStore(transcripts) if request.param == "sql" else InMemoryStore()


def memory_on(note_store, **options):
    return TokenMemory(TokenBudget(8_000), notes=Notebook(note_store), **options)


def talk(memory, transcripts, session_id="s", user_id="ann"):
    """Give a user messages, a pin, a memory block with a note, and a note of each level."""
    for level in ("session", "project", "global"):
        text = f"{user_id} {level}: {WORDS}"
        memory.notes.add(text, level=level, user_id=user_id, session_id=session_id)
    history = TokenMemoryChatHistory(session_id, memory=memory, store=transcripts, user_id=user_id)
    history.pin(WORDS)
    history.add_user_message(f"Which harbour? {WORDS}")
    assert "<kept_notes>" in history.messages[-1].text
    history.add_messages([AIMessage("Noted.")])
    return history


def notes_of(memory, user_id, session_id="s"):
    return memory.notes.list(user_id=user_id, session_id=session_id)


@pytest.mark.slow
def test_erasing_a_user_reaches_transcripts_pins_blocks_and_notes_and_tells_what_was_found(
    note_store, transcripts, tmp_path
):
    memory = memory_on(note_store)
    talk(memory, transcripts)
    talk(memory, transcripts, "b", "bob")
    for session in ("s", "other"):
        memory.notes.add("Of no user.", level="session", session_id=session)
    found = memory.erase(transcripts, user_id="ann")
    assert (found["messages"], found["sessions"], found["notes"]) == (2, 1, 4)
    assert memory.notes.list(level="session", session_id="s") == []
    assert memory.notes.list(level="session", session_id="other") != []
    assert notes_of(memory, "ann") == []
    assert transcripts.messages("s") == []
    assert transcripts.state("s").state is None
    assert len(notes_of(memory, "bob", "b")) == 3
    assert len(transcripts.messages("b")) == 2
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert not [file for file in files if f"ann global: {WORDS}".encode() in file.read_bytes()]
    again = asyncio.run(memory.aerase(transcripts, user_id="ann"))
    assert not any(again.values())


@pytest.mark.slow
def test_erasing_a_session_takes_its_sub_graphs_and_leaves_the_notes_that_live_longer(
    note_store, transcripts
):
    memory, inner = memory_on(note_store), thread_session("s", "child:1")
    talk(memory, transcripts)
    for name in (inner, "s2"):
        transcripts.add(name, [HumanMessage("hi")], user_id="ann")
        memory.notes.add(f"In {name[-1]}.", level="session", user_id="ann", session_id=name)
    found = asyncio.run(memory.aerase(transcripts, session_id="s"))
    assert (found["messages"], found["notes"]) == (3, 2)
    assert {note.type for note in notes_of(memory, "ann")} == {"project", "global"}
    assert transcripts.state("s").state is None
    assert memory.notes.list(level="session", user_id="ann", session_id=inner) == []
    assert memory.notes.list(level="session", user_id="ann", session_id="s2") != []


@pytest.mark.slow
def test_a_session_of_somebody_else_is_refused_and_nothing_is_erased(note_store, transcripts):
    memory = memory_on(note_store)
    talk(memory, transcripts)
    memory.notes.add("Bob's.", level="session", user_id="bob", session_id="s")
    with pytest.raises(ScopeError):
        memory.erase(transcripts, session_id="s", user_id="bob")
    assert len(notes_of(memory, "ann")) == 3
    assert len(notes_of(memory, "bob")) == 1
    assert len(transcripts.messages("s")) == 2


@pytest.mark.slow
def test_notes_go_although_vectors_could_not_be_deleted(note_store, transcripts):
    class BrokenRecall(Recall):
        def erase(self, session_id=None, user_id=None):
            self.store.erase(session_id, user_id)
            raise RecallError("Chroma is away.")

    with BrokenRecall(transcripts) as recall:
        memory = memory_on(note_store, recall=recall)
        talk(memory, transcripts)
        with pytest.raises(RecallError, match="away"):
            memory.erase(user_id="ann")
        assert notes_of(memory, "ann") == []


def test_notes_in_the_store_of_a_graph_are_reached_by_its_name(transcripts):
    store = InMemoryStore()
    Notebook(store).add(WORDS, user_id="ann")
    memory = TokenMemory(notes=Notebook())
    with pytest.raises(ConfigurationError, match="notes="):
        memory.erase(transcripts, user_id="ann")
    assert memory.erase(transcripts, user_id="ann", notes=Notebook(store))["notes"] == 1


def test_erasing_needs_a_store_and_a_user_or_a_session(transcripts):
    with pytest.raises(ConfigurationError, match=r"Name the store.*store=Tran"):
        TokenMemory().erase(user_id="ann")
    with pytest.raises(ScopeError, match="Pass the session_id or the user_id"):
        TokenMemory().erase(transcripts)
    assert TokenMemory().erase(transcripts, user_id="ann")["notes"] == 0


@pytest.mark.slow
def test_redacting_a_user_reaches_transcripts_pins_blocks_and_notes(
    note_store, transcripts, tmp_path
):
    memory = memory_on(note_store)
    talk(memory, transcripts)
    talk(memory, transcripts, "b", "bob")
    given = {"store": transcripts, "user_id": "ann"}
    would = memory.redact(WORDS, dry_run=True, notes=Notebook(note_store), **given)
    receipt = asyncio.run(memory.aredact(WORDS, **given))
    assert receipt.counts == would.counts
    assert (receipt.counts["messages"], receipt.counts["notes"]) == (1, 3)
    assert WORDS not in str(transcripts.messages("s")) + str(transcripts.state("s"))
    assert {note.content.split(": ")[1] for note in notes_of(memory, "ann")} == {"[redacted]"}
    assert {note.content.split(": ")[1] for note in notes_of(memory, "bob", "b")} == {WORDS}
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert not [file for file in files if f"ann global: {WORDS}".encode() in file.read_bytes()]
    assert not memory.redact(WORDS, **given).counts


def test_redacted_notes_are_written_and_files_with_the_words_reported(transcripts, tmp_path):
    folder = tmp_path / "notes"
    store = JsonStore(folder, debounce_s=60)
    memory = memory_on(store)
    memory.notes.add(WORDS, user_id="ann")
    store.flush()
    (file,) = folder.glob("*.json")
    file.with_name(f".{file.name}.1.tmp").write_text(WORDS, encoding="utf-8")  # of a killed writer
    damaged = file.with_name(f"{file.name}.damaged-1")
    damaged.write_text(WORDS, encoding="utf-8")
    receipt = memory.redact(WORDS, store=transcripts, user_id="ann")
    holding = [one for one in folder.iterdir() if WORDS in one.read_text(encoding="utf-8")]
    assert holding == [damaged]
    assert receipt.unreached == (
        "damaged files of notes that hold the words (1): repair or delete them",
    )
    same = memory.redact(WORDS, store=transcripts, user_id="ann", notes=Notebook(store))
    assert same == replace(receipt, counts={})
    damaged.unlink()
    assert memory.redact(WORDS, store=transcripts, user_id="ann").unreached == ()


def test_a_summary_that_was_made_of_redacted_words_is_dropped(transcripts):
    seen = []

    def redacting(request):
        said = str(request)
        seen.append(WORDS in said)
        transcripts.redact(WORDS, session_id="s")
        return f"They said: {said[:200]}"

    memory = memory_of(summarizer=redacting, background=False)
    history = TokenMemoryChatHistory("s", memory=memory, store=transcripts)
    history.add_messages([HumanMessage("First."), AIMessage(f"About {WORDS}."), *turns(9)])
    history.compact()
    assert seen[0]
    assert WORDS not in str(history.messages)
    assert WORDS not in str(transcripts.state("s").state)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["ann", re.compile(r"\d+"), "Tea", "application"], ids=str)
def test_a_redaction_changes_only_the_texts_of_notes(note_store, transcripts, what):
    notes = Notebook(note_store, project="ann")
    memory = TokenMemory(TokenBudget(8_000), notes=notes)
    notes.add("Ask ann about 12 Tea.", level="global", key="Tea", user_id="ann", tags=["12"])
    notes.add("By application 12.", level="project", user_id="ann")
    before = notes.list(user_id="ann")
    receipt = memory.redact(what, "*", store=transcripts, everywhere=True)
    after = notes.list(user_id="ann")
    bare = [[replace(note, content="", tags=()) for note in each] for each in (before, after)]
    assert bare[0] == bare[1]
    texts = [text for note in after for text in (note.content, *note.tags)]
    found = what if isinstance(what, re.Pattern) else re.compile(what)
    assert not any(map(found.search, texts))
    in_names = {"ann": 2, "Tea": 1}.get(str(what))
    said = [line for line in receipt.unreached if "keys of notes" in line]
    assert said == ([f"{in_names} keys of notes that hold the words"] if in_names else [])

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
def store(tmp_path):
    with TranscriptStore(f"sqlite:///{tmp_path}/memory.db", shared=True) as store:
        yield store


@pytest.fixture(params=["json", "sql", "in memory"])
def memory(request, tmp_path, store):
    """Return a memory with notes in files, in the database, or in a store of LangGraph."""
    makes = {"json": lambda: JsonStore(tmp_path / "notes"), "sql": lambda: SqlStore(store)}
    notes = makes.get(request.param, InMemoryStore)()
    yield memory_on(notes)
    if request.param == "json":
        notes.close()


def memory_on(note_store, **options):
    return TokenMemory(TokenBudget(8_000), notes=Notebook(note_store), **options)


def talk(memory, store, session_id="s", user_id="ann"):
    """Give a user messages, a pin, a memory block with a note, and a note of each level."""
    for level in ("session", "project", "global"):
        text = f"{user_id} {level}: {WORDS}"
        memory.notes.add(text, level=level, user_id=user_id, session_id=session_id)
    history = TokenMemoryChatHistory(session_id, memory=memory, store=store, user_id=user_id)
    history.pin(WORDS)
    history.add_user_message(f"Which harbour? {WORDS}")
    assert "<kept_notes>" in history.messages[-1].text
    history.add_messages([AIMessage("Noted.")])


def holding(folder, words):
    """Return the files below a folder that hold words."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    return [file for file in files if words.encode() in file.read_bytes()]


def notes_of(memory, user_id, session_id="s"):
    return memory.notes.list(user_id=user_id, session_id=session_id)


@pytest.mark.slow
def test_erasing_a_user_reaches_transcripts_pins_blocks_and_notes_and_tells_what_was_found(
    memory, store, tmp_path
):
    talk(memory, store)
    talk(memory, store, "b", "bob")
    for session in ("s", "other"):
        memory.notes.add("Of no user.", level="session", session_id=session)
    found = memory.erase(store, user_id="ann")
    assert (found["messages"], found["sessions"], found["notes"]) == (2, 1, 4)
    assert memory.notes.list(level="session", session_id="s") == notes_of(memory, "ann") == []
    assert memory.notes.list(level="session", session_id="other") != []
    assert (store.messages("s"), store.state("s").state) == ([], None)
    assert len(notes_of(memory, "bob", "b")) == 3
    assert len(store.messages("b")) == 2
    assert holding(tmp_path, f"ann global: {WORDS}") == []
    assert not any(asyncio.run(memory.aerase(store, user_id="ann")).values())


@pytest.mark.slow
def test_erasing_a_session_takes_its_sub_graphs_and_leaves_the_notes_that_live_longer(
    memory, store
):
    inner = thread_session("s", "child:1")
    talk(memory, store)
    for name in (inner, "s2"):
        store.add(name, [HumanMessage("hi")], user_id="ann")
        memory.notes.add(f"In {name[-1]}.", level="session", user_id="ann", session_id=name)
    found = asyncio.run(memory.aerase(store, session_id="s"))
    assert (found["messages"], found["notes"]) == (3, 2)
    assert {note.type for note in notes_of(memory, "ann")} == {"project", "global"}
    assert store.state("s").state is None
    of_ann = {"level": "session", "user_id": "ann"}
    left = [memory.notes.list(session_id=name, **of_ann) for name in (inner, "s2")]
    assert [len(notes) for notes in left] == [0, 1]


@pytest.mark.slow
def test_a_session_of_somebody_else_is_refused_and_nothing_is_erased(memory, store):
    talk(memory, store)
    memory.notes.add("Bob's.", level="session", user_id="bob", session_id="s")
    with pytest.raises(ScopeError):
        memory.erase(store, session_id="s", user_id="bob")
    assert [len(notes_of(memory, user)) for user in ("ann", "bob")] == [3, 1]
    assert len(store.messages("s")) == 2


@pytest.mark.slow
def test_notes_go_although_vectors_could_not_be_deleted(memory, store):
    class BrokenRecall(Recall):
        def erase(self, session_id=None, user_id=None):
            self.store.erase(session_id, user_id)
            raise RecallError("Chroma is away.")

    with BrokenRecall(store) as recall:
        memory = memory_on(memory.notes.store, recall=recall)
        talk(memory, store)
        with pytest.raises(RecallError, match="away"):
            memory.erase(user_id="ann")
        assert notes_of(memory, "ann") == []


def test_erasing_needs_a_store_of_transcripts_and_of_notes_and_a_user_or_a_session(store):
    graph_store = InMemoryStore()
    Notebook(graph_store).add(WORDS, user_id="ann")
    memory = TokenMemory(notes=Notebook())
    with pytest.raises(ConfigurationError, match="notes="):
        memory.erase(store, user_id="ann")
    assert memory.erase(store, user_id="ann", notes=Notebook(graph_store))["notes"] == 1
    with pytest.raises(ConfigurationError, match=r"Name the store.*store=Tran"):
        TokenMemory().erase(user_id="ann")
    with pytest.raises(ScopeError, match="Pass the session_id or the user_id"):
        TokenMemory().erase(store)
    assert TokenMemory().erase(store, user_id="ann")["notes"] == 0


@pytest.mark.slow
def test_redacting_a_user_reaches_transcripts_pins_blocks_and_notes(memory, store, tmp_path):
    talk(memory, store)
    talk(memory, store, "b", "bob")
    given = {"store": store, "user_id": "ann"}
    would = memory.redact(WORDS, dry_run=True, notes=memory.notes, **given)
    receipt = asyncio.run(memory.aredact(WORDS, **given))
    assert receipt.counts == would.counts
    assert (receipt.counts["messages"], receipt.counts["notes"]) == (1, 3)
    assert WORDS not in str(store.messages("s")) + str(store.state("s"))
    for user, session, words in (("ann", "s", "[redacted]"), ("bob", "b", WORDS)):
        assert {n.content.split(": ")[1] for n in notes_of(memory, user, session)} == {words}
    assert holding(tmp_path, f"ann global: {WORDS}") == []
    assert not memory.redact(WORDS, **given).counts


def test_redacted_notes_are_written_and_files_with_the_words_reported(store, tmp_path):
    notes = JsonStore(tmp_path / "notes", debounce_s=60)
    memory, given = memory_on(notes), {"store": store, "user_id": "ann"}
    memory.notes.add(WORDS, user_id="ann")
    notes.flush()
    (file,) = (tmp_path / "notes").glob("*.json")
    damaged = file.with_name(f"{file.name}.damaged-1")
    for copy in (damaged, file.with_name(f".{file.name}.1.tmp")):  # the other of a killed writer
        copy.write_text(WORDS, encoding="utf-8")
    receipt = memory.redact(WORDS, **given)
    assert holding(tmp_path / "notes", WORDS) == [damaged]
    reported = "damaged files of notes that hold the words (1): repair or delete them"
    assert receipt.unreached == (reported,)
    same = memory.redact(WORDS, notes=Notebook(notes), **given)
    assert same == replace(receipt, counts={})
    damaged.unlink()
    assert memory.redact(WORDS, **given).unreached == ()


def test_a_summary_that_was_made_of_redacted_words_is_dropped(store):
    seen = []

    def redacting(request):
        seen.append(WORDS in str(request))
        store.redact(WORDS, session_id="s")
        return f"They said: {str(request)[:200]}"

    memory = memory_of(summarizer=redacting, background=False)
    history = TokenMemoryChatHistory("s", memory=memory, store=store)
    history.add_messages([HumanMessage("First."), AIMessage(f"About {WORDS}."), *turns(9)])
    history.compact()
    assert seen[0]
    assert WORDS not in str(history.messages) + str(store.state("s").state)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["ann", re.compile(r"\d+"), "Tea", "application"], ids=str)
def test_a_redaction_changes_only_the_texts_of_notes(memory, store, what):
    notes = Notebook(memory.notes.store, project="ann")
    memory = TokenMemory(TokenBudget(8_000), notes=notes)
    notes.add("Ask ann about 12 Tea.", level="global", key="Tea", user_id="ann", tags=["12"])
    notes.add("By application 12.", level="project", user_id="ann")
    before = notes.list(user_id="ann")
    receipt = memory.redact(what, "*", store=store, everywhere=True)
    after = notes.list(user_id="ann")
    bare = [[replace(note, content="", tags=()) for note in each] for each in (before, after)]
    assert bare[0] == bare[1]
    texts = [text for note in after for text in (note.content, *note.tags)]
    found = what if isinstance(what, re.Pattern) else re.compile(what)
    assert not any(map(found.search, texts))
    in_names = {"ann": 2, "Tea": 1}.get(str(what))
    said = [line for line in receipt.unreached if "keys of notes" in line]
    assert said == ([f"{in_names} keys of notes that hold the words"] if in_names else [])

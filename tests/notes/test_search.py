"""Search in notes: words, floor, dates, vectors."""

from langgraph.store.memory import InMemoryStore

from langchain_tokenmem.recall import HashingEmbeddings
from tests.notes.conftest import notebook_on

ANN = {"user_id": "ann"}
NOTES = (
    "The build runs with make and needs Python 3.12.",
    "Ann prefers tabs to spaces.",
    "Deployments go to the staging cluster on Fridays.",
    "The customer database is PostgreSQL 16.",
    *(f"Item {number} stands on shelf {number}." for number in range(20)),
)


def filled(store):
    notebook = notebook_on(store)
    for text in NOTES:
        notebook.add(text, level="global", **ANN)
    return notebook


def contents(notes):
    return [note.content for note in notes]


def test_an_unrelated_question_brings_none_and_key_and_tags_are_found(store):
    notebook = filled(store)
    for question in ("Who won the world cup in 1998?", "What is a monad?", "the of and", "", "?!"):
        assert notebook.search(question, **ANN) == []
    notebook.add("make all", key="build command", tags=["compiler"], level="global", **ANN)
    assert contents(notebook.search("What is the build command?", **ANN))[0] == "make all"
    assert contents(notebook.search("compiler", **ANN)) == ["make all"]


def test_a_store_without_an_index_does_not_answer_by_itself(store):
    """InMemoryStore.search(query=) without an index gives everything, unranked, ten at a time."""
    notebook = filled(store)
    assert len(store.search(("tokenmem",), query="database")) == 10
    assert contents(notebook.search("customer database", **ANN)) == [NOTES[3]]
    assert len(notebook.search("Which item stands on a shelf?", **ANN, limit=50)) == 20


def test_of_two_equal_notes_the_newer_one_comes_first(notebook):
    said = [f"The price is {price} euros." for price in (40, 45)]
    for text in said:
        notebook.add(text, level="global", **ANN)
    assert contents(notebook.search("What is the price in euros?", **ANN)) == said[::-1]


def test_a_named_date_moves_its_notes_up(store):
    notebook = notebook_on(store)
    notebook.add("Ann went swimming.", level="global", **ANN)
    others = notebook_on(store, now=lambda: notebook_on(store).now().replace(month=3))
    others.add("Ann went swimming again.", level="global", **ANN)
    found = contents(notebook.search("When in March did Ann go swimming?", **ANN))
    assert found[0] == "Ann went swimming again."


def test_earlier_questions_come_behind_the_newest_one(store):
    found = filled(store).search(["Which database?", "tabs or spaces"], **ANN)
    assert contents(found) == [NOTES[3], NOTES[1]]


class Meaning(HashingEmbeddings):
    """Cars and automobiles are one thing."""

    def embed_documents(self, texts):
        return super().embed_documents([text.replace("automobile", "car") for text in texts])


def test_meaning_alone_brings_a_note_that_shares_no_word():
    notebook = notebook_on(InMemoryStore(index={"dims": 256, "embed": Meaning(256)}))
    for text in ("automobile automobile", "The kettle is blue."):
        notebook.add(text, level="global", **ANN)
    assert contents(notebook.search("car", **ANN))[:1] == ["automobile automobile"]

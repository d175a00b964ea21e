"""The rules of a notebook on every store: levels, keys, limits, owners, tags, search."""

import asyncio
import logging
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.base import GetOp, SearchOp, validate_op_namespace
from langgraph.store.memory import InMemoryStore

from langchain_tokenmem import Notebook, TokenMemory, TranscriptStore, memory_tools
from langchain_tokenmem.core.thread_names import NO_USER, namespace_label, notes_of_user
from langchain_tokenmem.errors import ConfigurationError, ScopeError
from langchain_tokenmem.notes import JsonStore
from langchain_tokenmem.recall import HashingEmbeddings
from tests.fakes import replacing
from tests.notes.conftest import NOON, notebook_on, opened
from tests.strategies import any_text

ANN = {"user_id": "ann", "session_id": "s1"}


def contents(notes):
    return [note.content for note in notes]


@pytest.mark.slow
def test_a_notebook_keeps_its_rules_on_every_store(any_store):
    notebook = notebook_on(any_store, limit=12)
    first = notebook.add("Use make.", key="build", **ANN)
    second = notebook.add("Use just.", key="build", **ANN)
    assert notebook.list(**ANN) == [second]
    assert second.created_at == first.created_at
    tabs = notebook.add("Use tabs.", level="global", kind="preference", **ANN)
    assert notebook.add("Use tabs.", level="global", **ANN) == tabs
    for number in range(14):
        notebook.add(f"Item {number} stands on shelf {number}.", **ANN)
    assert len(notebook.list(level="project", **ANN)) == 12
    assert notebook.get("build", **ANN) is None
    assert notebook.get(tabs.id, **ANN) == tabs
    assert notebook.search("tabs or spaces?", **ANN)[0] == tabs
    assert len(notebook.search("Which item stands on a shelf?", limit=50, **ANN)) == 12
    assert notebook.list(user_id="bob") == []
    assert notebook.remove(tabs.id, **ANN) == tabs
    assert notebook.remove(tabs.id, **ANN) is None


def test_a_notebook_without_a_store_names_the_choices_and_writes_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match=r"Notebook\(SqlStore\(store\)\)"):
        Notebook().add("Use tabs.", user_id="ann")
    (memorize,) = memory_tools(include={"memorize"}, user_id="ann")
    answer = memorize.invoke({"content": "Use tabs.", "kind": "preference"})
    assert "These notes have no store" in answer
    assert list(tmp_path.iterdir()) == []


def test_what_another_process_adds_changes_removes_or_erases_is_seen_at_once(own_store, tmp_path):
    kind = "json" if isinstance(own_store, JsonStore) else "sql"
    with opened(kind, tmp_path) as theirs:
        notebook, other = notebook_on(own_store), notebook_on(theirs)
        for change, seen in (
            (lambda: other.add("one", key="k", **ANN), ["one"]),
            (lambda: other.add("two", **ANN), ["one", "two"]),
            (lambda: other.add("uno", key="k", **ANN), ["two", "uno"]),
            (lambda: other.remove("k", **ANN), ["two"]),
            (lambda: other.erase(user_id="ann"), []),
            (lambda: other.add("two", **ANN), ["two"]),
        ):
            change()
            if kind == "json":
                theirs.flush()
            assert sorted(contents(notebook.list(**ANN))) == seen


# --- fields, keys, ids


def test_a_note_has_the_fields_that_were_given_and_tags_of_its_content_behind_them(notebook):
    given = {"key": "build", "kind": "fact", "tags": ["ui", " ui", "src/app.py"], "source": 7}
    note = notebook.add("Edit src/app.py", **given, **ANN)
    assert (note.type, note.key, note.kind, note.source) == ("project", "build", "fact", 7)
    assert (note.tags, note.project.label) == (("ui", "src/app.py"), "shop")
    assert note.created_at == note.updated_at == NOON
    assert notebook.get("build", **ANN) == notebook.get(note.id, **ANN) == note


def test_addresses_dates_and_pairs_of_words_are_no_tags(notebook):
    text = """See github.com/foo/bar.py and https://example.com/a/b.py, on 2026/11/22, 22.11.2026 or
    11/22/2026, either/or, his/her/their, n/a, 24/7, TCP/IP, km/h. The function works as the package
    arrived: a function that returns, a separate module."""
    assert notebook.add(text, **ANN).tags == ()


def test_a_note_that_an_edit_by_hand_damaged_is_none_and_is_logged_once(notebook, store, caplog):
    note = notebook.add("Edited by hand.", **ANN)
    (item,) = store.search(("tokenmem",))
    wrong = {"content": 3, "created_at": "soon", "kind": "rumour", "tags": "tabs", "project": "x"}
    for field, value in {**wrong, "key": "spaces"}.items():
        caplog.clear()
        store.put(item.namespace, item.key, {**item.value, field: value})
        assert notebook.list(**ANN) == notebook.list(**ANN) == []
        (logged,) = [record.getMessage() for record in caplog.records]
        assert logged.partition(" is left out ")[0].split()[1] == note.id
        assert ("its id or key was changed" if field == "key" else f"{field}: ") in logged
    store.put(item.namespace, item.key, {**item.value, "expires_at": "2026-11-22T12:00:00"})
    assert notebook.list(**ANN) == [], "a time without a zone"
    store.put((*notes_of_user("bob"), "global"), item.key, {**item.value, "type": "global"})
    assert notebook.list(user_id="bob") == [], "a note that was moved to another user"


def test_a_key_names_a_note_of_its_level_and_scope_and_the_nearest_level_answers(notebook, store):
    other = notebook_on(store, project="bakery")
    for book, level, owner in (
        *((notebook, level, ANN) for level in ("global", "project", "session")),
        (notebook, "session", {**ANN, "session_id": "s2"}),
        *((notebook, "project", {"user_id": "bob"}), (other, "project", ANN)),
    ):
        book.add(f"{book.project.label} {level} {owner}", key="build", level=level, **owner)
    assert len(notebook.list(**ANN)) == 3
    assert len(other.list(**ANN, level="project")) == len(notebook.list(user_id="bob")) == 1
    assert notebook.get("build", **ANN).type == "session"
    assert notebook.get("build", level="global", **ANN).type == "global"
    assert notebook.remove("build", **ANN).type == "session"
    assert notebook.get("build", **ANN).type == "project"


def test_identical_content_is_one_note_and_under_two_keys_two(notebook):
    notebook.add("Use tabs.", **ANN)
    one = notebook.add("Use tabs.", key="python", **ANN)
    assert notebook.add("Use tabs.", **ANN) == one
    assert notebook.list(**ANN) == [one]
    two = notebook.add("Use tabs.", key="go", **ANN)
    assert two.id.startswith(one.id)
    assert two.id != one.id
    assert notebook.get(two.id, **ANN) == two


def test_over_the_limit_the_oldest_goes_and_that_is_said(store, caplog):
    notebook = notebook_on(store, limit=3)
    first = notebook.add("0", key="old", **ANN)
    for text in ("1", "2"):
        notebook.add(text, **ANN)
    notebook.add("00", key="old", **ANN)  # overwritten: not the oldest any more
    with caplog.at_level(logging.WARNING):
        notebook.add("3", **ANN)
    assert contents(notebook.list(**ANN)) == ["3", "00", "2"]
    assert "User 'ann': A level has more than 3 notes" in caplog.text
    assert first.id not in {note.id for note in notebook.list(**ANN)}


def test_list_gives_the_newest_first_by_tags_and_limit(notebook):
    for text, tags in (("a", ["x"]), ("b", ["x", "y"]), ("c", ["Y"])):
        notebook.add(text, tags=tags, **ANN)
    assert contents(notebook.list(**ANN)) == ["c", "b", "a"]
    assert contents(notebook.list(tags=["y"], **ANN)) == ["c", "b"]
    assert contents(notebook.list(limit=1, **ANN)) == ["c"]


def test_without_a_user_only_notes_of_the_session_can_be_had(notebook):
    for level in ("project", "global"):
        for call in ("add", "get", "search", "list", "remove"):
            given = () if call == "list" else ("x",)
            with pytest.raises(ScopeError, match="local_user"):
                getattr(notebook, call)(*given, level=level, session_id="s1")


def test_a_declared_local_user_stands_for_calls_that_name_none(store):
    """A project named with a slash at its end is the same project as without it."""
    notebook = notebook_on(store, local_user="me", project="/work/shop/")
    note = notebook.add("Use tabs.")
    assert notebook.list() == [note]
    assert notebook_on(store, project="/work/shop").list(user_id="me") == [note]


def test_ids_that_stores_refuse_are_no_trouble(notebook):
    for name in ("a.b", "*", "ann", "-", "=ann", "#", "a%", "langgraph"):
        note = notebook.add(name, level="session", user_id=name, session_id=name)
        assert notebook.list(user_id=name, session_id=name) == [note]


def test_the_owner_is_checked_on_what_comes_back(store):
    """A store that answers with everybody's notes shows nobody else's."""

    class Leaky(InMemoryStore):
        def batch(self, ops):
            wide = {"namespace_prefix": ("tokenmem",)}
            return super().batch(
                [op._replace(**wide) if isinstance(op, SearchOp) else op for op in ops]
            )

    notebook = notebook_on(Leaky())
    for user in ("ann", "bob"):
        notebook.add(f"{user} uses tabs", level="global", user_id=user)
    notebook.add("session tabs", level="session", user_id="ann", session_id="s1")
    assert contents(notebook.list(user_id="ann")) == ["ann uses tabs"]
    shown = notebook.list(level="session", user_id="ann", session_id="s2")
    assert [note.content for note in shown] == []
    assert contents(notebook.search("tabs", user_id="bob")) == ["bob uses tabs"]


class StoreOnLoop(InMemoryStore):
    """Does its work on one event loop, as LangGraph's async stores do for other threads."""

    def __init__(self):
        super().__init__()
        self.loop = asyncio.get_running_loop()

    def batch(self, ops):
        return asyncio.run_coroutine_threadsafe(self.abatch(ops), self.loop).result()

    async def abatch(self, ops):
        return super().batch(ops)


async def test_async_methods_do_the_same_on_a_store_that_needs_the_event_loop():
    async with asyncio.timeout(30):
        notebook = notebook_on(StoreOnLoop())
        note = await notebook.aadd("Use tabs.", key="indent", **ANN)
        assert await notebook.aadd("Use tabs.", **ANN) == note
        assert await notebook.aget("indent", **ANN) == note
        assert await notebook.asearch("tabs", **ANN) == [note]
        assert await notebook.aremove(note.id, **ANN) == note
        await notebook.aadd("x", **ANN)
        memory = TokenMemory(notes=notebook)
        erased = await memory.aerase(TranscriptStore("sqlite://"), user_id="ann")
        assert erased["notes"] == 1
        assert await notebook.alist(**ANN) == []
        assert await notebook.aerase(user_id="ann") == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"level": "team"},
        {"kind": "rumour"},
        *({"key": key} for key in (" ", 3, "k" * 201, "a\nb", "mem_12345678")),
        *({"content": content} for content in ("", " \n", None, "x" * 10_001)),
        {"tags": [3]},
        *({"user_id": user} for user in ("", " ", 3, "a\nb")),
    ],
)
def test_an_argument_or_setting_that_cannot_be_used_is_refused(notebook, wrong):
    with pytest.raises((ConfigurationError, ScopeError), match=next(iter(wrong))):
        notebook.add(**{"content": "x", **ANN, **wrong})
    settings = ({"store": 3}, {"limit": 0}, {"project": " "}, {"session_lifetime": timedelta()})
    for setting in settings:
        with pytest.raises(ConfigurationError, match=next(iter(setting))):
            Notebook(**{"store": InMemoryStore(), **setting})


def test_a_store_of_its_own_goes_before_a_given_one(notebook, store):
    note = notebook.scoped("ann", store=InMemoryStore()).add("x").note
    assert notebook_on(store).list(user_id="ann") == [note]
    assert notebook_on(None).scoped("ann", store=store).listed() == [note]


without_addresses = replacing(" at ", "@")


def test_what_before_store_takes_out_of_a_note_is_never_stored(store):
    notebook = notebook_on(store, before_store=without_addresses)
    texts = {"key": "ann@a.com", "tags": ["bob@a.com"]}
    note = notebook.add("Write to eve@a.com.", **texts, **ANN)
    assert note.content == "Write to eve at a.com."
    assert "@" not in str([item.value for item in store.search(("tokenmem",))])
    assert notebook.get("ann@a.com", **ANN) == note
    assert notebook.add("Write to eve@a.com.", **ANN) == note
    assert notebook.remove("ann@a.com", **ANN) == note
    memory = TokenMemory(8_000, notes=notebook_on(store), before_store=without_addresses)
    assert memory.notes.add("bob@a.com", **ANN).content == "bob at a.com"


# --- labels of namespaces

ODD = st.sampled_from(["", "*", "-", "=ann", "a.b", "\ud800", "a\x00", "#1"])
NAMES = any_text() | ODD


@given(NAMES, NAMES)
def test_two_names_never_have_one_label_and_none_holds_what_a_store_refuses(one, other):
    labels = [namespace_label(one), namespace_label(other)]
    assert (labels[0] == labels[1]) == (one == other)
    validate_op_namespace(GetOp(tuple(labels), "key"))
    assert {"*", NO_USER}.isdisjoint(labels)


# Search: words, floor, dates, vectors


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


def test_of_two_equal_notes_the_newer_one_comes_first_and_a_named_date_moves_its_notes_up(store):
    notebook = notebook_on(store)
    early = notebook_on(store, now=lambda: notebook.now().replace(month=3))
    for book, price in ((early, 35), (notebook, 40), (notebook, 45)):
        book.add(f"The price is {price} euros.", level="global", **ANN)
    questions = {"What is the price?": (45, 40, 35), "The price in March?": (35, 45, 40)}
    for question, prices in questions.items():
        found = contents(notebook.search(question, **ANN))
        assert found == [f"The price is {price} euros." for price in prices]


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

"""The rules of a notebook on every store: levels, keys, limits, owners, tags."""

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
from langchain_tokenmem.notes import JsonStore, SqlStore
from tests.notes.conftest import NOON, notebook_on
from tests.strategies import any_text

ANN = {"user_id": "ann", "session_id": "s1"}


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
    if isinstance(own_store, JsonStore):
        theirs = JsonStore(tmp_path / "notes")
    else:
        theirs = SqlStore(TranscriptStore(tmp_path / "notes.db"))
    notebook, other = notebook_on(own_store), notebook_on(theirs)
    seen = []
    for change in (
        lambda: other.add("one", key="k", **ANN),
        lambda: other.add("two", **ANN),
        lambda: other.add("uno", key="k", **ANN),
        lambda: other.remove("k", **ANN),
        lambda: other.erase(user_id="ann"),
        lambda: other.add("two", **ANN),
    ):
        change()
        if isinstance(theirs, JsonStore):
            theirs.flush()
        seen.append(sorted(note.content for note in notebook.list(**ANN)))
    assert seen == [["one"], ["one", "two"], ["two", "uno"], ["two"], [], ["two"]]
    (theirs if isinstance(theirs, JsonStore) else theirs.store).close()


# --- fields, keys, ids


def test_a_note_has_the_fields_that_were_given_and_tags_of_its_content_behind_them(notebook):
    note = notebook.add(
        "Edit src/app.py",
        key="build",
        kind="fact",
        tags=["ui", " ui", "src/app.py"],
        source=7,
        **ANN,
    )
    assert (note.type, note.key, note.kind, note.source) == ("project", "build", "fact", 7)
    assert (note.tags, note.project.label) == (("ui", "src/app.py"), "shop")
    assert note.created_at == note.updated_at == NOON
    assert notebook.get("build", **ANN) == notebook.get(note.id, **ANN) == note


def test_addresses_dates_and_pairs_of_words_are_no_tags(notebook):
    text = """See github.com/foo/bar.py and https://example.com/a/b.py, on 2026/11/22, 22.11.2026 or
    11/22/2026, either/or, his/her/their, n/a, 24/7, TCP/IP, km/h. The function works as the package
    arrived: a function that returns, a separate module."""
    assert notebook.add(text, **ANN).tags == ()


def test_what_an_application_has_put_there_is_no_note(notebook, store):
    notebook.add("tabs", **ANN)
    (item,) = store.search(("tokenmem",))
    for damage in (
        {"content": 3},
        {"created_at": "soon"},
        {"kind": "rumour"},
        {"tags": None},
        {"project": "x"},
        {"expires_at": "2026-11-22T12:00:00"},
    ):
        store.put(item.namespace, item.key, {**item.value, **damage})
        assert notebook.list(**ANN) == []
    store.put((*notes_of_user("bob"), "global"), item.key, {**item.value, "type": "global"})
    assert notebook.list(user_id="bob") == [], "a note that was moved to another user"


def test_a_note_that_an_edit_by_hand_damaged_is_logged_once(notebook, store, caplog):
    note = notebook.add("Edited by hand.", **ANN)
    (item,) = store.search(("tokenmem",))
    for damage in ({"tags": "tabs"}, {"key": "spaces"}):
        store.put(item.namespace, item.key, {**item.value, **damage})
        assert [notebook.list(**ANN), notebook.list(**ANN)] == [[], []]
    logged = [record.getMessage() for record in caplog.records]
    assert [text.partition(" is left out ")[0].split()[1] for text in logged] == [note.id] * 2
    assert ["tags: " in logged[0], "its id or key was changed" in logged[1]] == [True, True]


def test_a_project_is_the_same_with_a_slash_at_its_end(store):
    note = notebook_on(store, project="/work/shop/").add("Use tabs.", **ANN)
    assert notebook_on(store, project="/work/shop").list(**ANN) == [note]


def test_the_same_key_at_another_level_or_scope_does_not(notebook, store):
    other = notebook_on(store, project="bakery")
    for book, level, owner in (
        (notebook, "project", ANN),
        (notebook, "global", ANN),
        (notebook, "session", ANN),
        (notebook, "session", {**ANN, "session_id": "s2"}),
        (notebook, "project", {"user_id": "bob"}),
        (other, "project", ANN),
    ):
        book.add(f"{book.project.label} {level} {owner}", key="build", level=level, **owner)
    assert len(notebook.list(**ANN)) == 3
    assert len(other.list(**ANN, level="project")) == 1
    assert len(notebook.list(user_id="bob")) == 1


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
    assert [note.content for note in notebook.list(**ANN)] == ["3", "00", "2"]
    assert "User 'ann': A level has more than 3 notes" in caplog.text
    assert first.id not in {note.id for note in notebook.list(**ANN)}


def test_the_nearest_level_answers_to_a_name(notebook):
    for level in ("global", "project", "session"):
        notebook.add(level, key="build", level=level, **ANN)
    assert notebook.get("build", **ANN).content == "session"
    assert notebook.get("build", level="global", **ANN).content == "global"
    assert notebook.remove("build", **ANN).content == "session"
    assert notebook.get("build", **ANN).content == "project"


def test_list_gives_the_newest_first_by_tags_and_limit(notebook):
    for text, tags in (("a", ["x"]), ("b", ["x", "y"]), ("c", ["Y"])):
        notebook.add(text, tags=tags, **ANN)
    assert [note.content for note in notebook.list(**ANN)] == ["c", "b", "a"]
    assert [note.content for note in notebook.list(tags=["y"], **ANN)] == ["c", "b"]
    assert [note.content for note in notebook.list(limit=1, **ANN)] == ["c"]


def test_without_a_user_only_notes_of_the_session_can_be_had(notebook):
    for level in ("project", "global"):
        for call in ("add", "get", "search", "list", "remove"):
            given = () if call == "list" else ("x",)
            with pytest.raises(ScopeError, match="local_user"):
                getattr(notebook, call)(*given, level=level, session_id="s1")


def test_a_declared_local_user_stands_for_calls_that_name_none(store):
    notebook = notebook_on(store, local_user="me")
    note = notebook.add("Use tabs.", level="global")
    assert notebook.list() == [note]
    assert notebook_on(store).list(user_id="me") == [note]


def test_ids_that_stores_refuse_are_no_trouble(notebook):
    names = ("a.b", "*", "ann", "-", "=ann", "#", "a%", "langgraph")
    notes = [notebook.add(n, level="session", user_id=n, session_id=n) for n in names]
    for name, note in zip(names, notes, strict=True):
        assert notebook.list(user_id=name, session_id=name) == [note]


def test_the_owner_is_checked_on_what_comes_back(store):
    """A store that answers with everybody's notes shows nobody else's."""

    class Leaky(InMemoryStore):
        def batch(self, ops):
            wide = [
                op._replace(namespace_prefix=("tokenmem",)) if isinstance(op, SearchOp) else op
                for op in ops
            ]
            return super().batch(wide)

    leaky = Leaky()
    notebook = notebook_on(leaky)
    for user in ("ann", "bob"):
        notebook.add(f"{user} uses tabs", level="global", user_id=user)
    notebook.add("session tabs", level="session", user_id="ann", session_id="s1")
    assert [note.content for note in notebook.list(user_id="ann")] == ["ann uses tabs"]
    shown = notebook.list(level="session", user_id="ann", session_id="s2")
    assert [note.content for note in shown] == []
    assert [note.content for note in notebook.search("tabs", user_id="bob")] == ["bob uses tabs"]


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
    for setting in (
        {"store": 3},
        {"limit": 0},
        {"project": " "},
        {"session_lifetime": timedelta()},
    ):
        with pytest.raises(ConfigurationError, match=next(iter(setting))):
            Notebook(**{"store": InMemoryStore(), **setting})


def test_a_store_of_its_own_goes_before_a_given_one(notebook, store):
    note = notebook.scoped("ann", store=InMemoryStore()).add("x").note
    assert notebook_on(store).list(user_id="ann") == [note]
    assert notebook_on(None).scoped("ann", store=store).listed() == [note]


def without_addresses(messages):
    return [m.model_copy(update={"content": m.content.replace("@", " at ")}) for m in messages]


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

NAMES = st.one_of(
    any_text(), st.sampled_from(["", "*", "-", "=ann", "a.b", "\ud800", "a\x00", "#1"])
)


@given(NAMES)
def test_a_label_never_holds_what_a_store_refuses(name):
    validate_op_namespace(GetOp((namespace_label(name),), "key"))
    assert namespace_label(name) not in {"*", NO_USER}


@given(NAMES, NAMES)
def test_two_names_never_have_one_label(one, other):
    assert (namespace_label(one) == namespace_label(other)) == (one == other)

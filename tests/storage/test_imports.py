"""A history from elsewhere, or an export, becomes a session: once, whole, with what it brings."""

import warnings
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

from langchain_tokenmem import TokenBudget, TokenMemory, TranscriptStore
from langchain_tokenmem.core.messages import marked
from langchain_tokenmem.errors import ConfigurationError, HistoryImportError, StoreError
from langchain_tokenmem.storage import import_sources as sources
from langchain_tokenmem.storage import importing
from langchain_tokenmem.storage.importing import PageWriter
from tests.adapters.integrations import thread
from tests.storage.samples import graph_on, save_state, state, texts, turn
from tests.strategies import conversations

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
MEMORY = TokenMemory(8_000)


@pytest.fixture(autouse=True)
def small_pages(monkeypatch):
    monkeypatch.setattr(sources, "PAGE", 3)
    monkeypatch.setattr(importing, "PAGE", 3)


def chat(count, *, named=False):
    kinds = (HumanMessage, AIMessage)
    return [kinds[n % 2](f"m{n}", id=f"i{n}" if named else None) for n in range(count)]


def shown(store, session_id="s"):
    held, rows = store.conversation(session_id)
    return MEMORY.view([row.message for row in rows], held.state)


# --- once, whole


@pytest.mark.parametrize("named", [False, True])
def test_a_second_import_adds_nothing_and_one_of_a_longer_source_what_is_new(store, named):
    assert store.import_history(chat(7, named=named), "s").added == 7
    before = store.rows("s")
    again = store.import_history(chat(7, named=named), "s")
    assert (again.added, again.known) == (0, 7)
    assert store.rows("s") == before
    assert store.import_history(chat(9, named=named), "s").added == 2
    assert texts(store.messages("s")) == [f"m{n}" for n in range(9)]


def test_an_import_that_was_killed_goes_on(store, monkeypatch):
    whole = PageWriter.store

    def killed(self, page):
        if self.report.done >= 6:
            raise KeyboardInterrupt
        return whole(self, page)

    monkeypatch.setattr(PageWriter, "store", killed)
    with pytest.raises(KeyboardInterrupt):
        store.import_history(chat(11), "s")
    assert store.count("s") == 6
    monkeypatch.undo()
    report = store.import_history(chat(11), "s")
    assert (report.added, report.known) == (5, 6)
    assert texts(store.messages("s")) == [f"m{n}" for n in range(11)]


def test_answers_under_one_id_are_all_kept(store):
    said = [AIMessage(f"answer {n}", id="run-1") for n in range(5)]
    assert store.import_history(said, "s").renamed == 4
    assert texts(store.messages("s")) == [f"answer {n}" for n in range(5)]
    assert store.messages("s")[0].id == "run-1"
    assert store.import_history(said, "s").added == 0


# --- sources


def test_histories_of_any_kind_and_messages_of_any_form_are_taken(store):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated, and what many have
        history = InMemoryChatMessageHistory(messages=chat(5))
    forms = [("human", "m0"), {"role": "assistant", "content": "m1"}, *chat(5)[2:]]
    for number, source in enumerate((history, iter(chat(5)), forms)):
        assert store.import_history(source, f"s{number}").added == 5
        assert texts(store.messages(f"s{number}")) == texts(chat(5))


@pytest.mark.parametrize("source", [None, 7, "text", {"role": "user"}, InMemoryChatMessageHistory])
def test_what_is_no_source_is_refused(store, source):
    with pytest.raises(ConfigurationError, match="The source is"):
        store.import_history(source, "s")


def test_ids_times_calls_artifacts_and_marks_are_kept(store):
    call = {"name": "f", "args": {"n": 1}, "id": "c", "type": "tool_call"}
    marks = {"tokenmem": {"created_at": "2024-05-01T10:00:00+02:00", "pinned": True}}
    said = [
        HumanMessage("hi", id="h", response_metadata=marks),
        AIMessage("", id="a", tool_calls=[call]),
        ToolMessage("r", tool_call_id="c", id="t", artifact={"rows": [1, None]}),
        AIMessage("ok", id="b", response_metadata={"created_at": 1_714_557_700.0}),
        HumanMessage("on", id="o", additional_kwargs={"timestamp": "2024-05-01T11:00:00Z"}),
        AIMessage("ok", id="e", response_metadata={"created_at": "yesterday"}),
    ]
    store.import_history(said, "s", now=NOW)
    rows = store.rows("s")
    assert rows[0].message.response_metadata == {"tokenmem": {"pinned": True}}
    assert [row.message for row in rows[1:]] == said[1:]
    times = [row.created_at.strftime("%d %H:%M:%S") for row in rows]
    assert times == ["01 08:00:00"] * 3 + ["01 10:01:40"] + ["01 11:00:00"] * 2


# --- bad input


def test_a_bad_message_is_named_and_how_far_the_import_is_which_the_next_one_continues(store):
    said = [*chat(7), RemoveMessage(id="x"), HumanMessage("on")]
    with pytest.raises(HistoryImportError, match=r"message 8: .*6 messages before it") as caught:
        store.import_history(said, "s")
    assert (caught.value.done, caught.value.where) == (6, "message 8")
    assert store.count("s") == 6
    report = store.import_history(chat(11), "s")
    assert (report.added, report.known) == (5, 6)
    assert texts(store.messages("s")) == texts(chat(11))
    with pytest.raises(HistoryImportError, match=r"message 1: .*Nothing was imported"):
        store.import_history([{"role": "nobody"}], "s2")
    assert store.count("s2") == 0


def test_a_thread_with_checkpoints_is_refused(store):
    graph_on(store).invoke({"messages": chat(2)}, thread("t"))
    with pytest.raises(StoreError, match="thread with checkpoints; import into a session of"):
        store.import_history(chat(3), "t")


# --- summaries of other memories

TEXT = "Bob orders three chairs."
MIDDLEWARE = HumanMessage(
    f"Here is a summary of the conversation to date:\n\n{TEXT}",
    additional_kwargs={"lc_source": "summarization"},
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("begin", "model", "given"),
    [
        (MIDDLEWARE, "SummarizationMiddleware", None),
        (SystemMessage(f"Summary of the conversation so far: {TEXT}"), "langmem", None),
        (SystemMessage(TEXT), "ConversationSummaryMemory", TEXT),
        (None, "summary=", TEXT),
    ],
)
def test_an_old_summary_is_the_first_entry_of_the_log(store, begin, model, given):
    said = [*([begin] if begin else []), *chat(4)]
    for has_summary in (True, False):
        report = store.import_history(said, "s", summary=given)
        assert report.has_summary is has_summary
    (entry,) = store.state("s").state["summary"]["entries"]
    assert (entry["text"], entry["model"], entry["reason"]) == (TEXT, model, "imported")
    assert entry["covered"] == 1
    view = shown(store)
    assert view.warnings == ()
    assert str(view.messages).count(TEXT) == 1
    assert "m0" in str(view.messages)
    assert store.count("s") == 5


def test_a_summary_may_be_about_the_first_messages_of_the_source(store):
    call = {"name": "f", "args": {}, "id": "c", "type": "tool_call"}
    asked = AIMessage("", tool_calls=[call], id="a")
    found = ToolMessage("found", tool_call_id="c", id="t")
    said = [HumanMessage("first", id="h"), asked, found, HumanMessage("second", id="h2")]
    store.import_history(said, "s", summary=TEXT, summary_covers=2)
    summary = store.state("s").state["summary"]
    assert summary["covers_to"] == "t"  # the result belongs to its call
    text = str(shown(store).messages)
    assert [word in text for word in ("first", TEXT, "second", "found")] == [True] * 3 + [False]
    assert store.count("s") == 4
    for wrong in ({"summary_covers": 2}, {"summary": TEXT, "summary_covers": -1}):
        with pytest.raises(ConfigurationError, match="summary_covers is"):
            store.import_history(said, "s", **wrong)


# What is exported and imported again is the same session


ARTIFACTS = st.sampled_from([None, {"rows": [1, None]}, "text", [1.5, {"deep": {"a": "\ud800"}}]])
TIME = {"created_at": "2024-05-01T10:00:00+02:00"}
MARKS = st.sampled_from([{}, TIME, {"pinned": True}, {"note": {"a": [1]}}])
BUDGET = {"budget": TokenBudget(context_window=4_000)}
MODE, MODEL = {"mode": "conversation"}, {"summarizer": "openai:gpt-5-mini"}
MORE = [{}, MODE, MODEL, {"enabled": False}, {**MODEL, "enabled": True, "mode": "code"}]
SETTINGS = st.sampled_from(MORE).map(lambda more: {**BUDGET, **more})


@st.composite
def odd_conversations(draw):
    """Messages with artifacts, times and marks of all kinds."""
    found = []
    for message in draw(conversations(8)):
        is_result = isinstance(message, ToolMessage)
        fields = {"artifact": draw(ARTIFACTS)} if is_result else {}
        found.append(marked(message, **draw(MARKS)).model_copy(update=fields))
    return found


def session_of(store):
    rows = [store.rows("s", include_superseded=superseded) for superseded in (False, True)]
    return rows, store.state("s").state, store.settings("s"), store.sessions(user_id="ann")


@pytest.mark.slow
@given(odd_conversations(), odd_conversations(), st.booleans(), SETTINGS)
@settings(max_examples=settings.default.max_examples // 2)
def test_the_import_of_an_export_is_the_same_session(first, second, is_cleared, own):
    options = {"url": "sqlite://", "shared": True}
    with TranscriptStore(**options) as store, TranscriptStore(**options) as copy:
        if is_cleared:
            store.add("s", [HumanMessage("gone")])
            store.clear("s")
        store.add("s", first, user_id="ann")
        store.add("s", second)  # edits, where ids come again with other words
        if not store.sessions():
            return
        store.set_settings(session_id="s", **own)
        for row in store.rows("s")[-1:]:
            save_state(store, "s", state(row.message.id))
        lines = list(store.export_session("s"))
        assert len(lines) == 1 + len(store.rows("s", include_superseded=True))
        assert not any("\n" in line for line in lines)
        for _ in range(2):
            copy.import_session(lines)
            assert session_of(copy) == session_of(store)
        assert [*copy.export_session("s")] == lines


def test_what_was_added_to_a_copy_stays(store):
    store.add("s", turn(1))
    store.import_session(store.export_session("s"), "copy")
    store.add("copy", turn("here"))
    store.add("s", turn(2))
    report = store.import_session(store.export_session("s"), "copy")
    assert (report.added, report.known) == (2, 2)
    assert [m.id for m in store.messages("copy")] == ["h1", "a1", "hhere", "ahere", "h2", "a2"]


@pytest.mark.parametrize(
    ("number", "change", "error"),
    [
        (1, lambda line: "{", "line 1: It is not JSON"),
        (1, lambda line: line.replace('_export": 1', '_export": 9'), "version 9.*Upgrade"),
        (2, lambda line: line[:-9], "line 2: It is not JSON.*Nothing was imported"),
        (3, lambda line: line.replace('"seq": 2', '"seq": 7'), "line 3: This is message 7, 2 is"),
        (3, lambda line: line.replace('"type": "ai", "data"', '"type": "os", "data"'), "line 3: "),
        (5, lambda line: None, "end: The export ends after 3 of 4 messages"),
    ],
)
def test_a_bad_line_is_named(store, number, change, error):
    store.add("s", [*turn(1), *turn(2)])
    lines = list(store.export_session("s"))
    changed = change(lines[number - 1])
    assert changed != lines[number - 1]
    lines[number - 1 : number] = [] if changed is None else [changed]
    with pytest.raises(HistoryImportError, match=error):
        store.import_session(lines, "copy")

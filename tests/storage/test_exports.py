"""What is exported and imported again is the same session."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage, ToolMessage

from langchain_tokenmem import TokenBudget, TranscriptStore
from langchain_tokenmem.core.messages import marked
from langchain_tokenmem.errors import HistoryImportError
from tests.storage.samples import save_state, state, turn
from tests.strategies import conversations

ARTIFACTS = st.sampled_from([None, {"rows": [1, None]}, "text", [1.5, {"deep": {"a": "\ud800"}}]])
TIME = {"created_at": "2024-05-01T10:00:00+02:00"}
MARKS = st.sampled_from([{}, TIME, {"pinned": True}, {"note": {"a": [1]}}])
BUDGET = {"budget": TokenBudget(context_window=4_000)}
MORE = [{}, {"mode": "code"}, {"summarizer": "openai:gpt-5-mini", "enabled": False, "mode": "code"}]
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

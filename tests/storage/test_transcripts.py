"""A transcript: ids, order, resends, edits, owners, and who may share a store."""

import logging
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.graph import MessagesState
from sqlalchemy import text

from langchain_tokenmem import Recall, TranscriptStore
from langchain_tokenmem.core.messages import groups
from langchain_tokenmem.errors import CorruptStoreError, ScopeError, StoreError
from tests.adapters.integrations import thread
from tests.storage.samples import graph_on, save_state, state, texts, turn
from tests.strategies import conversations

ODD_IDS = ["../x", "/etc/passwd", "x' OR '1'='1", "😀", "a\\x00b", "%", "_", " a", "a", "A", "1"]
ODD_IDS += ["1.0", "é", "e\u0301", "x" * 500, "😀" * 250]


def human(words: str, name: str = "m", year: int = 0) -> HumanMessage:
    marks = {"tokenmem": {"created_at": f"{year}-02-01T00:00:00+00:00"}} if year else {}
    return HumanMessage(words, id=name, response_metadata=marks)


# --- resends


def test_a_resent_window_is_recognised_by_one_id_in_it_and_a_long_list_by_its_length(store):
    end = [HumanMessage("c"), AIMessage("d", id="d")]
    store.add("s", [HumanMessage("a"), AIMessage("b", id="b"), *end])
    assert len(store.add("s", [*end, HumanMessage("e")])) == 1
    assert texts(store.messages("s")) == ["a", "b", "c", "d", "e"]
    said = [HumanMessage("yes") for _ in range(60)]
    assert [len(store.add("t", given)) for given in (said, said, said[1:])] == [60, 0, 59]


# --- edits


def test_other_words_under_a_known_id_supersede_at_the_same_place(store):
    store.add("s", [human("first"), AIMessage("ok", id="a")])
    store.add("t", [human("first")])
    assert store.add("s", [human("second"), human("more", "n")]) == ["n"]
    now = ["second", "ok", "more"]
    assert texts(store.messages("s")) == texts(store.last("s", 3)) == now
    assert texts([row.message for row in store.conversation("s")[1]]) == now
    assert store.get("s", "m").content == "second"
    assert store.get("s", "m", include_superseded=True).content == "first"
    everything = store.messages("s", include_superseded=True)
    assert texts(everything) == ["first", *now]
    assert everything[0].response_metadata["tokenmem"] == {"superseded": 0}
    assert texts(store.messages("t", include_superseded=True)) == ["first"]


def test_an_answer_under_the_id_of_another_is_logged_and_a_redaction_is_not(store, caplog):
    store.add("s", [human("raw"), AIMessage("one", id="always")])
    with caplog.at_level(logging.WARNING):
        store.add("s", [human("redacted")])
        assert caplog.text == ""
        store.add("s", [AIMessage("two", id="always")])
    assert "always was stored with another wording" in caplog.text


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE tokenmem_messages SET message = replace(message, 'redacted', 'raw')",
        "UPDATE tokenmem_messages SET message = NULL WHERE is_shown",
        "DELETE FROM tokenmem_messages WHERE seq = 1",
    ],
)
def test_a_damaged_or_missing_edit_is_an_error_and_never_the_superseded_words(store, damage):
    store.add("s", [human("raw"), AIMessage("ok", id="a")])
    store.add("s", [human("redacted")])
    with store.database.writing("damage") as connection:
        connection.execute(text(damage))
    for superseded in (False, True):
        with pytest.raises(CorruptStoreError):
            store.messages("s", include_superseded=superseded)


def test_a_process_without_recall_takes_superseded_words_out_of_the_index(path):
    with TranscriptStore(path, shared=True) as store, Recall(store):
        store.add("s", [human("The code is QUOKKA."), human("The key is here.", "n")])
    with TranscriptStore(path, shared=True) as store:
        store.add("s", [human("The code is WOMBAT.")])
        with store.database.reading("terms") as connection:
            count = text("SELECT count(*) FROM tokenmem_terms WHERE term = 'quokka'")
            assert connection.execute(count).scalar() == 0
    with TranscriptStore(path, shared=True) as store, Recall(store) as recall:
        found = recall.search("code WOMBAT", session_id="s", k=1)
        assert [hit.text for hit in found] == ["The code is WOMBAT."]
        assert [hit.message_id for hit in recall.search("key", session_id="s", k=1)] == ["n"]


def test_an_edit_reaches_the_threads_next_request_and_no_older_checkpoint(store: TranscriptStore):
    seen = []

    def answer(state: MessagesState) -> dict[str, list[AIMessage]]:
        seen.append(texts(state["messages"]))
        return {"messages": [AIMessage("ok")]}

    graph, config = graph_on(store, answer), thread("t")
    graph.invoke({"messages": [human("In Rome.")]}, config)
    store.edit("t", "m", HumanMessage("In Oslo."))
    assert texts(store.messages("t")) == ["In Oslo.", "ok"]
    graph.invoke({"messages": [HumanMessage("And?")]}, config)
    assert seen[-1] == ["In Oslo.", "ok", "And?"]
    assert texts(store.messages("t")) == ["In Oslo.", "ok", "And?", "ok"]
    store.edit("t", "m", HumanMessage("In Rome."))
    assert texts(graph.get_state(config).values["messages"])[0] == "In Rome."
    assert texts([*graph.get_state_history(config)][-2].values["messages"]) == ["In Rome."]
    with pytest.raises(StoreError, match="RemoveMessage"):
        store.hide("t", ["m"])
    with pytest.raises(StoreError, match="no message"):
        store.edit("t", "n", HumanMessage("x"))


def test_an_edit_may_name_another_time(store: TranscriptStore):
    for edit, year in (
        *((human("In Rome.", year=2020), 2020), (human("In Oslo."), 2020)),
        *((human("In Lund.", year=2021), 2021), (human("In Bern."), 2021)),
    ):
        store.add("s", [edit])
        assert [row.created_at.year for row in store.rows("s")] == [year]


def test_an_edit_keeps_the_time_of_its_message_and_is_an_activity(store: TranscriptStore):
    said = [human("In Rome.", name, 2020) for name in "mno"]
    graph = graph_on(store)
    graph.invoke({"messages": said}, thread("t"))
    with Recall(store) as recall:
        graph.invoke({"messages": [human("In Oslo.")]}, thread("t"))
        store.edit("t", "n", human("In Oslo.", "n", 2020))
        store.add("s", said)
        store.add("s", [human("In Oslo."), human("In Oslo.", "n")])
        assert len({row.created_at for name in "st" for row in store.rows(name)}) == 1
        for name in ("s", "t"):
            hits = recall.search("Oslo", session_id=name, before=datetime(2021, 1, 1, tzinfo=UTC))
            assert len(hits) == 2
    assert store.expire(timedelta(days=30), dry_run=True).expired == ()


# --- what is read


@pytest.mark.slow
@given(conversations(max_size=40), st.integers(1, 12))
def test_last_is_the_shortest_end_of_whole_groups(said, n):
    with TranscriptStore("sqlite://", shared=True) as store:
        store.add("s", said)
        wanted: list[BaseMessage] = []
        for group in reversed(groups(store.messages("s"))):
            if len(wanted) >= n:
                break
            wanted = [*group.messages, *wanted]
        assert store.last("s", n) == wanted


def test_a_conversation_is_what_is_kept_and_everything_from_the_end_of_the_summary(store):
    store.add("s", [message for number in range(20) for message in turn(number)])
    save_state(store, "s", state("a9", "h0", "h5"))
    rows = store.conversation("s")[1]
    assert [row.message.id for row in rows][:4] == ["h0", "h5", "a9", "h10"]
    assert len(rows) == 2 + 1 + 20
    save_state(store, "s", state("gone"))
    assert len(store.conversation("s")[1]) == 40


# --- names and owners


def test_odd_session_ids_neither_collide_nor_leave_the_database_file(file_store, path):
    for name in ODD_IDS:
        file_store.add(name, [HumanMessage(name, id=name)], user_id=name)
    assert file_store.sessions() == sorted(ODD_IDS)
    for name in ODD_IDS:
        assert texts(file_store.messages(name, user_id=name)) == [name]
        assert file_store.sessions(user_id=name) == [name]
    assert {item.name.partition("-")[0] for item in path.parent.iterdir()} == {path.name}


@pytest.mark.parametrize("bad", ["", "\n", None, 1, b"s", ["s"]])
def test_ids_that_name_nothing_are_refused_everywhere(store, bad):
    for ask in (
        *(store.messages, store.conversation, store.count, store.state, store.clear),
        lambda session: store.add(session, [HumanMessage("x")]),
        lambda session: store.last(session, 3),
        lambda session: store.get(session, "x"),
        lambda session: store.save_state(session, state("x"), expected=0),
        lambda session: store.set_budget(session, None),
    ):
        with pytest.raises(ScopeError, match="session_id"):
            ask(bad)
    for ask in (partial(store.add, "s", turn(1)), partial(store.messages, "s")):
        with pytest.raises(ScopeError, match="user_id"):
            ask(user_id=" " if bad is None else bad)
    assert store.sessions() == []


async def test_async_methods_do_what_their_twins_do(path):
    async with TranscriptStore(path, shared=True) as store:
        assert await store.aadd("s", turn(1), user_id="ann") == ["h1", "a1"]
        assert await store.amessages("s", user_id="ann") == turn(1)
        assert await store.aclear("s") == 2
        assert await store.amessages("s") == []


# Any sequence of calls does what a plain list would do


SESSIONS = st.sampled_from(["s", "t 😀", "../s"])
WORDS = st.sampled_from(["yes", "no", "", "\ud800", "数据"])


class Store(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.store = TranscriptStore("sqlite://")
        self.said: dict[str, list[tuple[str, object]]] = defaultdict(list)
        self.first: dict[str, int] = defaultdict(lambda: 1)
        self.states: dict[str, object] = {}
        self.numbers = count()

    @rule(session=SESSIONS, start=st.integers(0, 5), words=st.lists(WORDS, max_size=4))
    def add_named(self, session, start, words):
        """As a client does that names its messages, and sends the newest ones again."""
        known = [HumanMessage(text, id=name) for name, text in self.said[session][start:]]
        new = [HumanMessage(word, id=f"m{next(self.numbers)}") for word in words]
        assert self.store.add(session, [*known, *new]) == [message.id for message in new]
        self.said[session] += [(m.id, m.content) for m in new]

    @rule(session=SESSIONS, word=WORDS)
    def add_a_turn(self, session, word):
        """As a chat does: the user's words bring no id, the model's do."""
        answer = AIMessage("ok", id=f"a{next(self.numbers)}")
        added = self.store.add(session, [HumanMessage(word), answer])
        self.said[session] += zip(added, (word, "ok"), strict=True)

    @rule(session=SESSIONS)
    def resend_what_is_stored(self, session):
        assert self.store.add(session, self.store.messages(session)) == []

    @rule(session=SESSIONS)
    def clear(self, session):
        before = self.store.state(session).version
        assert self.store.clear(session) == len(self.said[session])
        self.first[session] += len(self.said[session])
        self.said[session], self.states[session] = [], None
        assert before == 0 or self.store.state(session).version == before + 1

    @rule(session=SESSIONS)
    def erase(self, session):
        self.store.erase(session)
        self.said[session], self.first[session], self.states[session] = [], 1, None

    @rule(session=SESSIONS, guess=st.integers(-1, 1), text=WORDS)
    def save_state(self, session, guess, text):
        version = self.store.state(session).version
        new = state("pointer", text=text)
        assert self.store.save_state(session, new, expected=version + guess) == (guess == 0)
        if guess == 0:
            self.states[session] = new
            assert self.store.state(session).version > version

    @invariant()
    def nothing_is_lost_doubled_or_moved(self):
        for session, said in self.said.items():
            rows = self.store.rows(session)
            assert [(row.message.id, row.message.content) for row in rows] == said
            assert [row.seq for row in rows] == [self.first[session] + i for i in range(len(said))]
            assert self.store.count(session) == len(said)

    @invariant()
    def the_state_is_the_one_that_won(self):
        for session, wanted in self.states.items():
            assert self.store.state(session).state == wanted

    def teardown(self) -> None:
        self.store.close()


TestStore = pytest.mark.slow(Store.TestCase)
TestStore.settings = settings(
    max_examples=settings.default.max_examples // 2, stateful_step_count=15
)

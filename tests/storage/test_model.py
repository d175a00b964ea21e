"""Any sequence of calls does what a plain list would do."""

from collections import defaultdict

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_tokenmem import TranscriptStore
from tests.storage.samples import state

SESSIONS = st.sampled_from(["s", "t 😀", "../s"])
WORDS = st.sampled_from(["yes", "no", "", "\ud800", "数据"])


class Store(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.store = TranscriptStore("sqlite://")
        self.said: dict[str, list[tuple[str, object]]] = defaultdict(list)
        self.first: dict[str, int] = defaultdict(lambda: 1)
        self.states: dict[str, object] = {}
        self.number = 0

    def fresh(self, word: str, *, named: bool) -> BaseMessage:
        self.number += 1
        return HumanMessage(word, id=f"m{self.number}" if named else None)

    @rule(session=SESSIONS, words=st.lists(WORDS, max_size=4))
    def add_named(self, session, words):
        new = [self.fresh(word, named=True) for word in words]
        assert self.store.add(session, new) == [message.id for message in new]
        self.said[session] += [(m.id, m.content) for m in new]

    @rule(session=SESSIONS, word=WORDS)
    def add_a_turn(self, session, word):
        """As a chat does: the user's words bring no id, the model's do."""
        new = [self.fresh(word, named=False), AIMessage("ok", id=f"a{self.number}")]
        added = self.store.add(session, new)
        assert len(added) == 2
        self.said[session] += [(added[0], word), (added[1], "ok")]

    @rule(session=SESSIONS, start=st.integers(0, 5), word=WORDS)
    def resend_by_id(self, session, start, word):
        known = [HumanMessage(text, id=name) for name, text in self.said[session][start:]]
        new = self.fresh(word, named=True)
        assert self.store.add(session, [*known, new]) == [new.id]
        self.said[session].append((new.id, word))

    @rule(session=SESSIONS)
    def resend_what_is_stored(self, session):
        assert self.store.add(session, self.store.messages(session)) == []

    @rule(session=SESSIONS)
    def clear(self, session):
        before = self.store.state(session).version
        assert self.store.clear(session) == len(self.said[session])
        self.first[session] += len(self.said[session])
        self.said[session] = []
        self.states[session] = None
        assert before == 0 or self.store.state(session).version == before + 1

    @rule(session=SESSIONS)
    def erase(self, session):
        self.store.erase(session)
        self.said[session], self.first[session], self.states[session] = [], 1, None

    @rule(session=SESSIONS, guess=st.integers(-1, 1), text=WORDS)
    def save_state(self, session, guess, text):
        version = self.store.state(session).version
        new = state("pointer", text=text)
        stored = self.store.save_state(session, new, expected=version + guess)
        assert stored == (guess == 0)
        if stored:
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

"""What replay reads and measures, on memories whose behaviour is known beforehand."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.cli.measures import ReferenceCounter
from langchain_tokenmem.cli.replay import load_conversations, replay_conversation
from langchain_tokenmem.cli.replay_totals import ReplayTotals
from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.errors import BudgetExceededError, TokenMemoryError
from langchain_tokenmem.state import new_state

READ = {"name": "read", "args": {}, "id": "c"}
LETTERS = ReferenceCounter(len)
SAID = [
    SystemMessage("Be brief.", id="m0"),
    HumanMessage("one", id="m1"),
    AIMessage("two", id="m2"),
    HumanMessage("three", id="m3"),
    AIMessage("four", id="m4"),
    HumanMessage("five", id="m5"),
    AIMessage("six", id="m6"),
]


@dataclass
class Scripted:
    """A memory that shows what `shows` says, and remembers what `remembers` says, call by call."""

    shows: list = field(default_factory=list)
    remembers: list = field(default_factory=list)
    limit: int = 1_000
    budget: TokenBudget = field(default_factory=lambda: TokenBudget(context_window=1_000))
    given: list = field(default_factory=list)

    def compact(self, messages, state, *, tools=None):
        self.given.append((len(messages), tools))
        return (self.remembers.pop(0) if self.remembers else None) or state or new_state()

    def view(self, messages, state, *, tools=None):
        shown = (self.shows.pop(0) if self.shows else None) or list(messages)
        if isinstance(shown, Exception):
            raise shown
        usage = SimpleNamespace(max_tokens=self.limit)
        return SimpleNamespace(messages=shown, usage=usage, warnings=("said",))


def play(memory, said=SAID, **options):
    return replay_conversation(said, memory=memory, counter=LETTERS, **options)


def test_a_memory_that_sends_everything_is_well_and_keeps_its_prefix():
    memory = Scripted()
    report = play(memory)
    found = ReplayTotals([report])
    assert [length for length, _ in memory.given] == [2, 4, 6]
    assert report.faults == []
    assert (found.calls, found.pairs, found.stable, found.changes) == (3, 2, 2, 0)
    assert (found.sent, found.cached) == (found.whole, found.cacheable)
    assert (report.verbatim, report.shown, found.warnings) == (6, 6, 3)
    assert report.new_tokens == sum(4 + len(message.content) for message in SAID[:6])
    assert found.largest == report.new_tokens + 3
    assert not found.failed


def test_faults_of_the_audit_are_in_the_report():
    report = play(Scripted(shows=[None, [SAID[1], SAID[2]]]))
    assert report.faults == [
        "before m4: the newest human message m3 is missing",
        "before m4: the newest message m3 is missing",
    ]
    assert ReplayTotals([report]).illegal == 1


def test_a_refused_conversation_is_counted_apart():
    refusal = BudgetExceededError({"system": 2_000}, 900)
    report = play(Scripted(shows=[None, refusal]))
    found = ReplayTotals([report, play(Scripted())])
    assert report.budget_exceeded == str(refusal)
    assert (found.conversations, found.refused, found.calls) == (1, 1, 4)
    assert not found.failed
    assert report.fixed_tokens == 3 + 4 + len("Be brief.")


def test_a_changed_prefix_is_paid_again():
    calls = play(Scripted(shows=[None, None, [SAID[1], SAID[5]]])).calls
    sizes = [4 + len(message.content) for message in SAID]
    assert [call.new for call in calls] == [sum(sizes[:2]), sum(sizes[2:4]), sum(sizes[4:6])]
    assert calls[1].price == pytest.approx(0.1 * sum(sizes[:2]) + sum(sizes[2:4]))
    assert calls[2].price == sizes[1] + sizes[5]
    assert calls[2].whole_price == pytest.approx(0.1 * sum(sizes[:4]) + sum(sizes[4:6]))
    assert [call.sent_again for call in calls] == [0, 0, max(0, sizes[1] - sizes[4])]


def test_coverage_is_of_what_the_answer_needs_and_the_request_holds():
    long = "word " * 70
    said = [
        *(HumanMessage("Edit src/app.py.", id="m0"), AIMessage("", id="m1", tool_calls=[READ])),
        *(ToolMessage(f"{long}ada_4711", id="m2", tool_call_id="c"), AIMessage(long, id="m3")),
        *(HumanMessage("Go on.", id="m4"), AIMessage("src/app.py: ada_4711", id="m5")),
    ]
    memory = Scripted(shows=[None, [said[0], said[1]], [said[0], said[4]]])
    calls = play(memory, said).calls
    assert [call.fresh_whole for call in calls] == [None, False, None]
    assert [call.coverage for call in calls] == [None, None, 0.5]
    assert [call.far for call in calls] == [None, None, 0.5]
    found = ReplayTotals([play(Scripted(), said)])
    assert (found.coverage, found.far, found.having_far) == (1, 1, 1)
    assert (found.fresh_whole, found.with_results) == (1, 1)


# --- recordings: every form of message file is read in tests/adapters/migration


def load(tmp_path, text):
    path = tmp_path / "said.jsonl"
    path.write_text(text, encoding="utf-8")
    return load_conversations(path)


@pytest.mark.parametrize(
    ("text", "error"),
    [('{"messages": []}', "no messages"), ('{"tokenmem_export": 1}', "session")],
)
def test_what_cannot_be_played_is_said(tmp_path, text, error):
    with pytest.raises(TokenMemoryError, match=error):
        load(tmp_path, text)


def test_a_store_and_its_export_are_played_like_the_messages_in_them(tmp_path):
    url = f"sqlite:///{tmp_path}/memory.db"
    with TranscriptStore(url) as store:
        store.add("s1", SAID, user_id="ann")
        store.add("s2", SAID[:2])
        of_ann, other = store.export_session("s1", user_id="ann"), store.export_session("s2")
        lines = [*of_ann, *other]
    (tmp_path / "export.jsonl").write_text("\n".join(lines), encoding="utf-8")
    for source in (url, tmp_path / "memory.db", tmp_path / "export.jsonl"):
        found = {one.name: [m.content for m in one.messages] for one in load_conversations(source)}
        assert found == {"s1": [m.content for m in SAID], "s2": [m.content for m in SAID[:2]]}

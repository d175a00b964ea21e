"""What replay reads and measures, on memories whose behaviour is known beforehand."""

import gzip
import json
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_openai_messages,
)

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.cli import measures
from langchain_tokenmem.cli import replay as replaying
from langchain_tokenmem.cli.audit import audit
from langchain_tokenmem.cli.measures import MessageTexts, ReferenceCounter
from langchain_tokenmem.cli.replay import load_conversations, replay_conversation
from langchain_tokenmem.cli.replay_totals import ReplayTotals
from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.state import new_state
from tests.adapters.integrations import tool_turns
from tests.cli.command import ran

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


def test_requests_over_limit_and_window_fail_a_replay():
    found = ReplayTotals([play(Scripted(limit=30))])
    assert (found.over_limit, found.over_window, found.illegal) == (2, 0, 0)
    assert found.failed
    tight = Scripted(budget=TokenBudget(context_window=256))
    long = [SAID[0], HumanMessage("x" * 300, id="m1"), SAID[2]]
    assert ReplayTotals([play(tight, long)]).over_window == 1


def test_faults_of_the_audit_are_in_the_report():
    report = play(Scripted(shows=[None, [SAID[1], SAID[2]]]))
    assert report.faults == [
        "before m4: the newest human message m3 is missing",
        "before m4: the newest message m3 is missing",
    ]
    assert ReplayTotals([report]).illegal == 1


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


def test_legacy_calls_and_halves_of_surrogate_pairs_are_no_faults(tmp_path):
    call = {"name": "w", "arguments": '{"city": "\\ud83d Lund"}'}
    said = [
        {"role": "user", "content": "Weather in Lund? \ud83d"},
        {"role": "assistant", "content": None, "function_call": call},
        {"role": "function", "name": "w", "content": "Rain \ud83d"},
        {"role": "assistant", "content": "Rain."},
    ]
    (tmp_path / "said.json").write_text(json.dumps(said))
    found = json.loads(ran("replay", tmp_path / "said.json", "--window", 8_000, "--json"))
    totals = found["totals"]
    assert (totals["calls"], totals["with_results"], totals["illegal"]) == (2, 1, 0)


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


# The command


@pytest.fixture
def recording(tmp_path):
    path = tmp_path / "said.jsonl.gz"
    long, short = map(convert_to_openai_messages, (tool_turns(12), tool_turns(2, words=10)))
    long[9]["tool_calls"][0]["function"]["arguments"] = '{"n": '  # as a model may end
    rows = [{"id": "long", "messages": long}, short]
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    return path


@pytest.mark.slow
def test_replay_prints_the_numbers_and_writes_them(recording, tmp_path):
    out = tmp_path / "out"
    output = ran("replay", recording, "--window", 2_000, "--out", out)
    assert "conversation 2" in output
    long, short = map(json.loads, (out / "replay.jsonl").read_text("utf-8").splitlines())
    assert long["name"] == "long"
    assert (len(long["calls"]), len(short["calls"])) == (24, 4)
    assert long["faults"] == short["faults"] == []
    assert long["totals"]["summaries"] >= 1
    assert long["totals"]["largest"] <= 2_000
    assert long["totals"]["stable"] == long["totals"]["pairs"]
    assert long["totals"]["changes"] <= long["allowance"]
    assert short["totals"]["summaries"] == 0
    assert short["totals"]["price"] == 1
    assert 0 < long["totals"]["price"] < 1
    for line in ("price", "sent again", "coverage", "far coverage", "fresh results whole"):
        assert re.search(rf"^ *{line} +[\d.-]+", output, re.MULTILINE), line
    narrow = " ".join(ran("replay", recording, "--window", 2_000, COLUMNS="60").split())
    assert narrow.startswith("name calls largest over illegal cuts sums saved price ")


@pytest.mark.slow
def test_a_broken_promise_ends_with_1(recording, monkeypatch):
    def spoiled(messages, **options):
        report = replay_conversation(messages, **options)
        calls = tuple(type(call)(**{**vars(call), "faults": ("planted",)}) for call in report.calls)
        return type(report)(**{**vars(report), "calls": calls})

    monkeypatch.setattr(replaying, "replay_conversation", spoiled)
    output = ran("replay", recording, "--window", 2_000, code=1)
    assert "before m1: planted" in output
    assert "... and 8 more" in output


@pytest.mark.parametrize(
    ("content", "window", "error"),
    [
        (None, "2000", "No such file"),
        ("{", "2000", "It is not JSON"),
        ('[{"role": "user", "content": "hi"}]', "5", "window"),
        ('{"messages": []}', "2000", "no messages"),
        ('{"tokenmem_export": 1}', "2000", "session"),
    ],
)
def test_wrong_use_ends_with_2_and_one_line(tmp_path, content, window, error):
    path = tmp_path / "said.json"
    if content:
        path.write_text(content, encoding="utf-8")
    assert error in ran("replay", path, "--window", window, code=2)


@pytest.mark.slow
def test_a_missing_library_is_one_clear_line():
    code = (
        "import sys; sys.modules['typer'] = None\n"
        "from langchain_tokenmem.__main__ import main; main()"
    )
    done = subprocess.run(  # noqa: S603  our own interpreter and text
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "pip install 'langchain-tokenmem[cli]'" in done.stderr


# The audit: each check finds the fault that is planted for it


def calling(key: str, *ids: str, text: str = "") -> AIMessage:
    calls = [{"name": "read", "args": {"path": one}, "id": one} for one in ids]
    return AIMessage(text, id=key, tool_calls=calls)


SYSTEM = SystemMessage("Be brief.", id="m0")
FIRST = HumanMessage("Read both files, please.", id="m1")
CALLS = calling("m2", "a", "b")
RESULT_A = ToolMessage("text of a", tool_call_id="a", id="m3")
RESULT_B = ToolMessage("text of b", tool_call_id="b", id="m4")
ANSWER = AIMessage("Done.", id="m5")
SECOND = HumanMessage("Now read c.", id="m6")
LAST_CALL = calling("m7", "c")
LAST_RESULT = ToolMessage("text of c", tool_call_id="c", id="m8")
AUDITED = [SYSTEM, FIRST, CALLS, RESULT_A, RESULT_B, ANSWER, SECOND, LAST_CALL, LAST_RESULT]


def without(*left_out):
    return [message for message in AUDITED if message not in left_out]


def capped(message, text):
    return message.model_copy(update={"content": text})


def in_place(old, new):
    return [new if message is old else message for message in AUDITED]


@pytest.mark.parametrize("message", [FIRST, SECOND, LAST_RESULT])
def test_what_is_whole_or_old_or_cut_with_a_marker_is_well(message):
    assert audit(AUDITED, AUDITED) == []
    assert audit(AUDITED, without(CALLS, RESULT_A, RESULT_B, ANSWER)) == []
    for name in ("57", message.id):
        marker = f"[... 9 characters, 2 lines left out; full text: message {name} ...]"
        assert audit(AUDITED, in_place(message, capped(message, marker))) == []


@pytest.mark.parametrize(
    ("request_", "fault"),
    [
        ([SYSTEM], "only system messages"),
        (without(FIRST), "first request m1 is missing"),
        ([FIRST, SYSTEM, *AUDITED[2:]], "system message comes after"),
        (without(RESULT_A), "calls without a result: ['a']"),
        (without(LAST_RESULT), "calls without a result at the end: ['c']"),
        (without(CALLS), "result 'a' does not follow"),
        (without(LAST_CALL), "message of the newest calls m7 is missing"),
        ([*AUDITED[:4], RESULT_A, *AUDITED[4:]], "result 'a' does not follow"),
        ([*AUDITED[:6], ANSWER, *AUDITED[6:]], "message id 'm5' occurs 2 times"),
        ([*AUDITED[:5], *AUDITED[2:]], "call id 'a' occurs 2 times"),
        (without(SECOND), "newest human message m6 is missing"),
        (in_place(SECOND, capped(SECOND, "Now")), "human message m6 is shortened without"),
        (in_place(SECOND, capped(SECOND, "see message m61")), "m6 is shortened without"),
        (in_place(FIRST, capped(FIRST, "Read")), "first request m1 is shortened without"),
        (in_place(LAST_RESULT, capped(LAST_RESULT, "text")), "result m8 is shortened without"),
    ],
)
def test_a_planted_fault_is_found(request_, fault):
    assert fault in " | ".join(audit(AUDITED, request_))


def test_a_newest_answer_that_is_missing_is_found():
    said = [SYSTEM, FIRST, ANSWER]
    assert audit(said, said) == []
    assert audit(said, [SYSTEM, FIRST]) == ["the newest message m5 is missing"]


# Measures


MESSAGES = st.lists(st.text("ab ", max_size=4).map(HumanMessage), max_size=4)


def with_arguments(**arguments):
    return AIMessage("", tool_calls=[{"name": "book", "args": arguments, "id": "c"}])


def test_literals_of_an_action_are_copied_values_without_counts_and_dates():
    action = with_arguments(
        flight="EHGLP3", on="2024-05-20", bags=2, to="Ada Lovelace", cabin="eco"
    )
    assert measures.literals_of_action(action) == ["EHGLP3", "Ada Lovelace"]
    assert measures.literals_of_action(AIMessage("I wrote src/app.py.")) == ["src/app.py"]
    assert measures.find_literals("see a/b.py, fooBar, x_y, v1.2.3 and 12 of 1,250") == [
        *("a/b.py", "fooBar", "x_y", "v1.2.3", "1,250")
    ]
    for guessed in ("2024-05-20", "12", "ab", "word"):
        assert not measures.is_literal(guessed)


@pytest.mark.parametrize("run", ["-", ".", "_", "@", "日"])
def test_one_long_run_of_anything_is_read_in_no_time(run):
    started = time.process_time()
    assert measures.find_literals(f"{run * 20_000} src/app.py") == ["src/app.py"]
    assert time.process_time() - started < 1


@given(MESSAGES, MESSAGES)
def test_the_common_beginning_is_never_longer_than_either_request(before, more):
    texts = MessageTexts(LETTERS)
    shared, blocks, keeps = texts.shared(before, more)
    assert blocks <= shared <= min(texts.tokens(before), texts.tokens(more))
    assert texts.shared(before, [*before, *more]) == (texts.tokens(before),) * 2 + (True,)
    assert not keeps or shared == texts.tokens(before)

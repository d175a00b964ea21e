"""Pure functions of `benchmarks/price.py`: prices, coverage, bound coverage, lift."""

import sys
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from _price_citing import TOOLS, CitingModel
from _price_measure import Run, Tally
from _price_systems import without_summary
from price import figures

from langchain_tokenmem.cli.measures import MessageTexts, ReferenceCounter

COUNTER = ReferenceCounter(lambda text: len(text.split()))
WORDS = "one two three four five six seven eight nine ten"


def call(name, key, **arguments):
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": key}])


HISTORY = [
    SystemMessage("Use tool_x.", id="s"),
    HumanMessage(f"Fix src/app.py {WORDS}", id="h"),
    call("run", "c1", command="pytest tests/test_a.py"),
    ToolMessage(f"user_id: ada_4711\n{WORDS}", id="r1", tool_call_id="c1"),
    call("note", "c2", owner="ada_4711", file="src/app.py", with_="tool_x", fresh="bob_12345"),
]


def run_of(ask, window=1_000):
    model = CitingModel(counter=COUNTER)
    return Run(MessageTexts(COUNTER), ask, model, window)


def played(ask, messages=HISTORY, window=1_000):
    tally = Tally()
    for one in run_of(ask, window).play(messages):
        tally.add(one)
    return tally


def test_sending_everything_costs_one_and_holds_every_literal():
    found = figures(played(list))
    for name in ("price", "price_1024", "price_blocks", "coverage", "bound", "whole_results"):
        assert found[name] == 1.0
    assert (found["calls_per_change"], found["resent"]) == (None, 0.0)


def test_a_changed_prefix_is_paid_again():
    calls = list(run_of(lambda history: [history[0], *history[-2:]]).play(HISTORY))
    system, human, first, result = (MessageTexts(COUNTER).sent(m).tokens for m in HISTORY[:4])
    assert [one.changes for one in calls] == [0, 1]
    assert calls[1].cost == pytest.approx(0.1 * system + first + result)
    assert calls[1].whole == pytest.approx(0.1 * (system + human) + first + result)
    assert calls[1].cost_1024 == system + first + result


def test_a_request_over_the_window_and_a_crash_hold_nothing():
    assert (played(list, window=20).over, played(list, window=20).covered) == (2, 0.0)

    def broken(_history):
        raise ValueError

    tally = played(broken)
    assert (tally.crashes, tally.covered, tally.cost, tally.whole) == (2, 0.0, 0.0, 0.0)


def test_lift_is_what_only_the_summary_holds():
    summary = SystemMessage("<conversation_summary>\nsrc/app.py\n</conversation_summary>")
    tally = played(lambda history: [summary, *history[-1:]], window=60)
    assert (tally.far, tally.lift) == (1.0, 1.0)
    other = HumanMessage("x", additional_kwargs={"lc_source": "summarization"})
    assert without_summary(other) == ""


def test_a_summary_is_read_at_the_cached_price_only_with_the_same_tools():
    run = run_of(list)
    prompt = [HumanMessage(WORDS)]
    run.call(prompt, AIMessage("."))
    for tools, price in ((TOOLS, 0.1 * 14), (None, 14)):
        run.model.invoke(prompt, tools=tools)
        [made] = run.model.take_calls()
        assert run._price_of_summary(made) == pytest.approx(price + 5 * 2)

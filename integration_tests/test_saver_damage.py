"""Kills, flipped bytes, fuzzed and tampered rows: the right state or an error, nothing else."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import saver_kills
from flips import flipped
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.sqlite import SqliteSaver
from savers import at, put

import langchain_tokenmem
from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from langchain_tokenmem.errors import StoreError
from langchain_tokenmem.storage.checkpoints.doctor import examine
from langchain_tokenmem.storage.checkpoints.repair import repair

KILLS = int(os.environ.get("TOKENMEM_KILLS", "200"))
FLIPS = int(os.environ.get("TOKENMEM_FLIPS", "1000"))
FUZZED = int(os.environ.get("TOKENMEM_FUZZED", "10000"))
ERROR = "error"
ROWS = re.compile(rb"[\s\S]{16}=(ann|bob|long|child:1|1[0-9a-f]{7}-[0-9a-f-]{27})")
"""Keys, and what stands before them: numbers, lengths, other keys."""


def test_two_hundred_kills_in_the_middle_of_writes(tmp_path: Path) -> None:
    package = Path(langchain_tokenmem.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, saver_kills.__file__, tmp_path / "memory.db", str(KILLS), "17"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(package)},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    tally = Counter(found["tally"])
    kinds = ("put", "writes", "prune")
    cut = {kind: tally[f"begin {kind}"] - tally[f"done {kind}"] for kind in kinds}
    print(
        f"\n{KILLS} kills: {tally['done put']} checkpoints, {tally['done writes']} times writes "
        f"and {tally['done prune']} prunings acknowledged, killed in the middle of {cut}, "
        f"{found['kept']} checkpoints kept; faults: {len(found['faults'])}"
    )
    assert found["faults"] == []
    assert tally["done put"] >= KILLS / 2, "nothing was acknowledged: nothing could be lost"
    assert min(cut.values()) >= KILLS // 100, "no kill hit this one"


# --- flipped bytes


Named = dict[str, RunnableConfig]
"""The tip of each thread's older branch."""


def build(saver: BaseCheckpointSaver[Any]) -> Named:
    """Fill three threads: a fork, a sub-graph, pending writes, a long one."""
    named: Named = {}
    for thread, turns in (("ann", 3), ("bob", 2), ("long", 9)):
        parent, said = at(thread), []
        for n in range(turns):
            call = {"name": "f", "args": {"n": n}, "id": f"c{n}", "type": "tool_call"}
            said += [
                HumanMessage(f"{thread} asks {n}", id=f"{thread}q{n}"),
                AIMessage("", tool_calls=[call], id=f"{thread}c{n}"),
                ToolMessage("y" * (n * 91 % 700), tool_call_id=f"c{n}", id=f"{thread}t{n}"),
            ]
            values = {"messages": list(said), "n": n, "note": f"{thread} {n} " * 30}
            versions = dict.fromkeys(values, f"{n + 1:032}.5")
            former, parent = parent, put(saver, parent, values, versions, step=n, run_id=f"r{n}")
            saver.put_writes(parent, [("delta", [said[-1]]), ("n", n)], f"task{n}", "path")
        forked = {"messages": [*said[:3], HumanMessage("fork", id="f")], "n": -1}
        put(saver, former, forked, dict.fromkeys(forked, f"{99:032}.5"), step=99)
        put(saver, at(thread, ns="child:1"), {"n": 0}, {"n": f"{1:032}.5"})
        named[thread] = parent
    return named


Asked = dict[str, Callable[[], Any]]


def asked(saver: BaseCheckpointSaver[Any], named: Named) -> Asked:
    """Return what is asked of a saver after each flip."""
    questions: Asked = {}
    for thread in named:
        head = at(thread)
        questions |= {
            f"head of {thread}": partial(saver.get_tuple, head),
            f"list of {thread}": listed(saver, {"configurable": {"thread_id": thread}}),
            f"run of {thread}": listed(saver, head, filter={"run_id": "r1"}),
            f"delta of {thread}": partial(
                saver.get_delta_channel_history, config=head, channels=["delta"]
            ),
        }
    return questions


def asked_closely(saver: BaseCheckpointSaver[Any], named: Named) -> Asked:
    """Return everything that can be asked of a saver."""
    questions = {**asked(saver, named), "list of all": listed(saver, None)}
    for thread, one in named.items():
        every: RunnableConfig = {"configurable": {"thread_id": thread}}
        questions |= {
            f"head of {thread}'s child": partial(saver.get_tuple, at(thread, ns="child:1")),
            f"one of {thread}": partial(saver.get_tuple, one),
            f"newest of {thread}": listed(saver, every, limit=2),
            f"before one of {thread}": listed(saver, every, before=one),
            f"only one of {thread}": listed(saver, one),
        }
    return questions


def listed(
    saver: BaseCheckpointSaver[Any], config: RunnableConfig | None, **given: Any
) -> Callable[[], Any]:
    return lambda: list(saver.list(config, **given))


def answers(questions: Asked, refusals: tuple[type[Exception], ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for question, ask in questions.items():
        try:
            found[question] = ask()
        except refusals:  # every refusal is an answer
            found[question] = ERROR
    return found


Opener = Callable[[Path], Any]


@contextmanager
def ours(path: Path) -> Iterator[BaseCheckpointSaver[Any]]:
    with TranscriptStore(f"sqlite:///{path}") as store:
        yield TokenMemorySaver(store)


@contextmanager
def stock(path: Path) -> Iterator[BaseCheckpointSaver[Any]]:
    connection = sqlite3.connect(path, check_same_thread=False)
    try:
        yield SqliteSaver(connection)
    finally:
        connection.close()


def flip(
    folder: Path,
    opener: Opener,
    refusals: tuple[type[Exception], ...],
    flips: int,
    within: re.Pattern[bytes] | None = None,
    questions: Callable[[BaseCheckpointSaver[Any], Named], Asked] = asked,
) -> tuple[Counter[str], list[str]]:
    """Flip one bit at a time and ask everything; return how often it was refused or wrong."""
    path = folder / "memory.db"
    with opener(path) as saver:
        named = build(saver)
        right = answers(questions(saver, named), ())
    assert all(right.values()), right
    tally: Counter[str] = Counter()
    wrong: list[str] = []
    for flipped_byte, copy in flipped(path, flips, within):
        with opener(copy) as saver:
            found = answers(questions(saver, named), refusals)
        tally[state_of(found)] += 1
        wrong += [
            f"{flipped_byte}: {question}"
            for question, answer in found.items()
            if answer != ERROR and answer != right[question]
        ]
    return tally, wrong


def state_of(found: dict[str, Any]) -> str:
    refused = sum(answer == ERROR for answer in found.values())
    return "none" if not refused else "all" if refused == len(found) else "some"


def test_a_thousand_flipped_bytes(tmp_path: Path) -> None:
    tally, wrong = flip(tmp_path, ours, (StoreError,), FLIPS)
    print(
        f"\n{FLIPS} flips, 12 questions each: {tally['none']} flips changed no "
        f"answer, {tally['some']} made some raise, {tally['all']} all; wrong: {len(wrong)}"
    )
    assert not wrong, "\n".join(wrong[:20])
    assert tally["some"] + tally["all"] > FLIPS // 10


def test_flipped_keys(tmp_path: Path) -> None:
    """A key is found by its order: one that is changed can hide others, or stand elsewhere."""
    tally, wrong = flip(tmp_path, ours, (StoreError,), FLIPS // 4, ROWS, asked_closely)
    print(f"\n{FLIPS // 4} flips in keys: {dict(tally)}; wrong: {len(wrong)}")
    assert not wrong, "\n".join(wrong[:20])
    assert tally["some"] + tally["all"] > FLIPS // 8


@pytest.mark.parametrize("within", [ROWS, None])
def test_the_doctor_finds_what_is_flipped_and_keeps_what_can_be_read(
    tmp_path: Path, within: re.Pattern[bytes] | None
) -> None:
    path, tally = tmp_path / "memory.db", Counter[str]()
    with ours(path) as saver:
        named = build(saver)
        every = [found.config for found in saver.list(None)]
    for flipped_byte, copy in flipped(path, FLIPS // 20, within):
        with TranscriptStore(f"sqlite:///{copy}") as store:
            saver = TokenMemorySaver(store)
            refused = state_of(answers(asked(saver, named), (StoreError,)))
            before = readable(store, every)
            try:
                found = examine(saver._checkpoints)
                assert refused == "none" or found.findings, f"{flipped_byte}: not found"
                left = repair(saver._checkpoints, found).findings
            except StoreError:
                tally["given up"] += 1
            else:
                again = state_of(answers(asked(TokenMemorySaver(store), named), (StoreError,)))
                assert left or again == "none", f"{flipped_byte}: not repaired, and not said"
                tally["harmless" if not found.findings else "left" if left else "repaired"] += 1
            after = readable(store, every)
        assert before == {name: after.get(name) for name in before}, f"{flipped_byte}: lost"
    print(f"\n{FLIPS // 20} flips: {dict(tally)}")
    assert tally["repaired"] + tally["left"]


def readable(store: TranscriptStore, every: Sequence[RunnableConfig]) -> dict[str, CheckpointTuple]:
    """Return the checkpoints that can be read, each by a saver that remembers none before it."""
    found = {}
    for config in every:
        with suppress(StoreError):
            if (one := TokenMemorySaver(store).get_tuple(config)) is not None:
                found[str(config)] = one
    return found


def test_the_flips_find_the_stock_saver_wrong(tmp_path: Path) -> None:
    """With every error forgiven, whatever its type: what is left is wrong in silence."""
    tally, wrong = flip(tmp_path, stock, (Exception,), 150)
    print(f"\n150 flips of SqliteSaver's file: {dict(tally)}; wrong answers: {len(wrong)}")
    assert wrong

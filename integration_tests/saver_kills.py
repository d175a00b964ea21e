"""Kills writers of checkpoints at random moments and reads back what they had acknowledged.

Run: python saver_kills.py FILE KILLS SEED. Prints one line of JSON with what was found.

It is a process of its own, without threads, that forks each writer: a new interpreter for each
of 200 kills would spend minutes on imports.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from savers import at, id_of, put

from langchain_tokenmem import TokenMemorySaver, TranscriptStore

THREADS = 6
WRITES = 3


def said(thread: str, count: int) -> list[AnyMessage]:
    """Return the messages that a checkpoint of so many turns must hold."""
    made: list[AnyMessage] = []
    for n in range(count):
        made.append(HumanMessage(f"{thread} asks {n} " + "x" * (n * 37 % 900), id=f"{thread}-q{n}"))
        made.append(AIMessage(f"{thread} answers {n}", id=f"{thread}-a{n}"))
    return made


def values_of(thread: str, count: int) -> dict[str, Any]:
    """Return all of a checkpoint's channels; everything follows from the number of turns."""
    filler = f"{thread} {count} " * (count * 53 % 700)
    return {"messages": said(thread, count), "count": count, "filler": filler}


def writes_of(thread: str, count: int) -> list[tuple[str, Any]]:
    return [
        (f"w{place}", [HumanMessage(f"{thread} {count} {place}", id=f"{thread}-w{count}-{place}")])
        for place in range(WRITES)
    ]


def work(url: str, thread: str, pipe: int, seed: int) -> None:
    """Put, put writes and prune until killed; say what begins and what has returned."""
    chosen = random.Random(seed)

    def say(*words: Any) -> None:
        os.write(pipe, (json.dumps(words) + "\n").encode())

    with TranscriptStore(url) as store:
        saver = TokenMemorySaver(store)
        head = saver.get_tuple(at(thread))
        parent = at(thread) if head is None else head.config
        count = 0 if head is None else head.checkpoint["channel_values"]["count"]
        say("ready")
        while True:
            count += 1
            values = values_of(thread, count)
            versions = dict.fromkeys(values, f"{count:032}.{chosen.random():016}")
            say("begin", "put", count)
            parent = put(saver, parent, values, versions, step=count)
            say("done", "put", count, id_of(parent))
            say("begin", "writes", count)
            saver.put_writes(parent, writes_of(thread, count), f"task{count}", "path")
            say("done", "writes", count, id_of(parent))
            if chosen.random() < 0.3:
                say("begin", "prune", count)
                saver.prune([thread], strategy="keep_latest")
                say("done", "prune", count)


def one_kill(url: str, thread: str, number: int, chosen: random.Random) -> list[list[Any]]:
    """Fork a writer, kill it, and return what it said."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            work(url, thread, writing, number)
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as heard:
        # By what it has done, not by the clock: a slow machine must not kill idle writers.
        lines = [heard.readline() for _ in range(chosen.randrange(1, 16))]
        time.sleep(chosen.uniform(0, 0.01))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        lines += heard.read().splitlines(keepends=True)
    assert lines[0], "the writer died before it was killed"
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


class Expected:
    """What must be there, what may be there, and what must not, by checkpoint."""

    def __init__(self) -> None:
        self.there: dict[str, dict[str, int]] = {}
        self.maybe: dict[str, dict[str, int]] = {}
        self.gone: dict[str, set[str]] = {}
        self.written: set[tuple[str, str]] = set()

    def learn(self, thread: str, heard: list[list[Any]]) -> None:
        there = self.there.setdefault(thread, {})
        maybe = self.maybe.setdefault(thread, {})
        gone = self.gone.setdefault(thread, set())
        for what, kind, *rest in (line for line in heard if len(line) > 1):
            if (what, kind) == ("done", "put"):
                there[rest[1]] = rest[0]
            elif (what, kind) == ("done", "writes"):
                self.written.add((thread, rest[1]))
            elif kind == "prune":
                older = {name: count for name, count in there.items() if count != rest[0]}
                for name in older:
                    del there[name]
                if what == "begin":
                    maybe.update(older)
                else:
                    gone.update(maybe)
                    maybe.clear()


def faults_of(store: TranscriptStore, thread: str, expected: Expected) -> list[str]:
    """Read a thread in full and say what is wrong with it."""
    saver = TokenMemorySaver(store)
    faults, seen = [], set()
    for found in saver.list(at(thread)):
        name = id_of(found.config)
        seen.add(name)
        count = found.checkpoint["channel_values"]["count"]
        if found.checkpoint["channel_values"] != values_of(thread, count):
            faults.append(f"{thread} {name}: half a checkpoint")
        pending = [(channel, value) for _, channel, value in found.pending_writes or ()]
        if pending not in ([], writes_of(thread, count)):
            faults.append(f"{thread} {name}: {len(pending)} of {WRITES} writes")
        if not pending and (thread, name) in expected.written:
            faults.append(f"{thread} {name}: acknowledged writes are lost")
    for name in expected.there.get(thread, {}).keys() - seen:
        faults.append(f"{thread} {name}: an acknowledged checkpoint is lost")  # noqa: PERF401
    for name in expected.gone.get(thread, set()) & seen:
        faults.append(f"{thread} {name}: a pruned checkpoint is back")  # noqa: PERF401
    most = max(expected.there.get(thread, {}).values(), default=0)
    transcript = store.messages(thread)
    if transcript[: 2 * most] != said(thread, most):
        faults.append(f"{thread}: the transcript is not what was said")
    return faults


def main() -> None:
    path, kills, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    url = f"sqlite:///{path}"
    chosen = random.Random(seed)
    expected, faults = Expected(), []
    tally: Counter[str] = Counter()
    for number in range(kills):
        thread = f"t{number % THREADS}"
        heard = one_kill(url, thread, number, chosen)
        expected.learn(thread, heard)
        for what, kind, *_ in (line for line in heard if len(line) > 1):
            tally[f"{what} {kind}"] += 1
        # Closed again before the next fork: a child must not find open connections.
        with TranscriptStore(url) as store:
            faults += faults_of(store, thread, expected)
    with TranscriptStore(url) as store:
        for n in range(min(THREADS, kills)):
            faults += faults_of(store, f"t{n}", expected)
    kept = sum(len(there) for there in expected.there.values())
    print(json.dumps({"tally": tally, "faults": faults[:20], "kept": kept}))


if __name__ == "__main__":
    main()

"""A thousand flipped bytes: an error of ours, and never another message than was stored."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

from flips import flipped
from store_worker import turn

from langchain_tokenmem import TokenBudget, TranscriptStore
from langchain_tokenmem.errors import StoreError
from langchain_tokenmem.state import MemoryState, new_state

SESSIONS = ("ann/1", "bob/2", "empty", "x" * 400)
FLIPS = int(os.environ.get("TOKENMEM_FLIPS", "1000"))
ENTRY = {
    "id": "e1",
    "text": "What was said so far. " * 40,
    "first": "a-0-0",
    "last": 50,
    "covered": 50,
    "since": None,
    "until": None,
    "last_ids": ["a-9-4"],
    "tokens": 200,
    "model": "extractive",
    "prompt_version": "1",
    "reason": "limit",
    "created_at": "2026-11-21T12:00:00+00:00",
    "failures": [],
}
STATE: MemoryState = {
    **new_state(),
    "summary": {"entries": [ENTRY], "covers_to": "a-9-4", "covered": 50},
    "kept": ["a-0-0", "a-3-1"],
    "cuts": {"a-12-2": {"head": 100, "tail": 50}},
}


def build(path: Path) -> None:
    with TranscriptStore(f"sqlite:///{path}") as store:
        for number in range(18):
            store.add("ann/1", turn("a", number), user_id="ann")
            store.add("bob/2", turn("b", number), user_id="bob")
        store.add("x" * 400, turn("c", 1) + turn("c", 2))
        store.save_state("ann/1", STATE, expected=0)
        store.set_budget("bob/2", TokenBudget(context_window=4_000))
        # A session that only has a budget leaves no other trace than its own row.
        store.set_budget("empty", TokenBudget(context_window=9_000))


def read(store: TranscriptStore) -> dict[str, Any]:
    """Ask everything that can be asked; a refusal is one answer among others."""
    asked: dict[str, Any] = {
        "sessions": store.sessions,
        "of ann": lambda: store.sessions(user_id="ann"),
    }
    for name in SESSIONS:
        for ask in (store.rows, store.messages, store.conversation, store.count, store.state):
            asked[f"{ask.__name__} {name[:9]}"] = lambda ask=ask, name=name: ask(name)
        asked[f"last {name[:9]}"] = lambda name=name: store.last(name, 7)
        for key in ("a-4-2", "b-17-4", "c-1-0", "nobody"):
            asked[f"get {name[:9]} {key}"] = lambda name=name, key=key: store.get(name, key)
    answers: dict[str, Any] = {}
    for question, ask in asked.items():
        try:
            answers[question] = ask()
        except StoreError:  # every refusal is an answer
            answers[question] = StoreError
    return answers


MESSAGES = re.compile(rb'\{"type":"\w+","data":\{.*?\}\}')


def test_a_thousand_flipped_bytes(tmp_path):
    path = tmp_path / "memory.db"
    build(path)
    with TranscriptStore(f"sqlite:///{path}") as store:
        right = read(store)
    assert StoreError not in right.values()
    assert sum(len(right[f"rows {name[:9]}"]) for name in SESSIONS) == 190
    for within in (None, MESSAGES):
        tally: Counter[str] = Counter()
        wrong: list[str] = []
        for flipped_byte, copy in flipped(path, FLIPS // 2, within):
            with TranscriptStore(f"sqlite:///{copy}") as store:
                found = read(store)
            refused = sum(answer is StoreError for answer in found.values())
            tally["refused by all" if refused == len(found) else "some" if refused else "none"] += 1
            wrong += [
                f"{flipped_byte}: {question}: {str(answer)[:120]}"
                for question, answer in found.items()
                if answer is not StoreError and answer != right[question]
            ]
        print(
            f"\n{FLIPS // 2} flips {'in messages' if within else 'anywhere'}, {len(right)} reads "
            f"each: {tally['none']} changed no answer, {tally['some']} made some reads raise, "
            f"{tally['refused by all']} all of them; wrong answers: {len(wrong)}"
        )
        assert tally["some"] + tally["refused by all"] > FLIPS // 20
        if within:  # beside messages only SQLite itself notices damage
            assert not wrong, "\n".join(wrong[:20])
            assert tally["some"] > 0.9 * FLIPS // 2

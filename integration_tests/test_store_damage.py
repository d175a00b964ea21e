"""Flipped bytes: an error of ours, and never another message than was stored."""

import random
import re
from pathlib import Path
from typing import Any

from stored_turns import turn

from langchain_tokenmem import TokenBudget, TranscriptStore
from langchain_tokenmem.errors import StoreError
from tests.storage.samples import save_state, state

SESSIONS = ("ann/1", "bob/2", "empty", "x" * 400)
FLIPS = 120
MESSAGES = re.compile(rb'\{"type":"\w+","data":\{.*?\}\}')


def build(path: Path) -> None:
    with TranscriptStore(path, shared=True) as store:
        for number in range(18):
            store.add("ann/1", turn("a", number), user_id="ann")
            store.add("bob/2", turn("b", number), user_id="bob")
        store.add("x" * 400, turn("c", 1) + turn("c", 2))
        save_state(store, "ann/1", state("a-9-4", "a-0-0", text="So far. " * 90))
        # A session that only has a budget leaves no other trace than its own row.
        for name in ("bob/2", "empty"):
            store.set_budget(name, TokenBudget(context_window=4_000))


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


def test_flipped_bytes_are_an_error_or_nothing_and_never_another_message(tmp_path):
    path, copy = tmp_path / "memory.db", tmp_path / "copy.db"
    build(path)
    with TranscriptStore(path, shared=True) as store:
        right = read(store)
    assert StoreError not in right.values()
    data, chosen = path.read_bytes(), random.Random(2_026)
    inside = [n for found in MESSAGES.finditer(data) for n in range(*found.span())]
    for places in (range(len(data)), inside):
        refused, wrong = 0, []
        for number in range(FLIPS // 2):
            # Every fourth flip goes to the first two pages: header, schema, the roots of trees.
            is_front = places is not inside and number % 4 == 0
            place, bit = chosen.choice(range(8_192) if is_front else places), chosen.randrange(8)
            changed = bytearray(data)
            changed[place] ^= 1 << bit
            copy.write_bytes(changed)
            with TranscriptStore(copy, shared=True) as store:
                found = read(store)
            for left in tmp_path.glob("copy.db*"):
                left.unlink()
            refused += StoreError in found.values()
            wrong += [
                f"byte {place}: {question}: {str(answer)[:120]}"
                for question, answer in found.items()
                if answer not in (StoreError, right[question])
            ]
        assert refused > FLIPS // 20
        if places is inside:  # beside messages only SQLite itself notices damage
            assert not wrong, "\n".join(wrong[:20])
            assert refused > 0.9 * FLIPS // 2

"""The estimator beside the exact count, over scripts, code and data."""

from __future__ import annotations

import base64
import json
import random
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_tokenmem.tokens.encodings import count_tokens, find_encoding
from langchain_tokenmem.tokens.estimate import estimate_tokens

O200K = find_encoding("o200k_base")
RANDOM = random.Random(7)

# Paragraphs in many languages and a piece of code, written for this test.
CORPUS = json.loads(Path(__file__).with_name("corpus.json").read_text(encoding="utf-8")) | {
    "json": json.dumps(
        [
            {
                "id": RANDOM.randrange(10**7),
                "user": f"user_{n}",
                "active": n % 2 == 0,
                "price": round(RANDOM.random() * 100, 2),
                "created_at": f"2026-05-{n + 1:02d}T10:11:12Z",
                "tags": ["alpha", "beta"],
            }
            for n in range(12)
        ]
    ),
    "log": "".join(
        f"2026-11-03 12:{n:02d}:07,{n * 13:03d} ERROR [worker-{n}] app.tasks: request to "
        f"10.0.{n}.17:8080 failed after {n * 251} ms (attempt {n}/20)\n"
        for n in range(20)
    ),
    "base64": base64.b64encode(RANDOM.randbytes(3_000)).decode(),
    "hex": " ".join(RANDOM.randbytes(32).hex() for _ in range(40)),
    "table": "| name | size |\n|------|------|\n"
    + "".join(f"| file_{n}.txt | {n * n} |\n" for n in range(30)),
}


@pytest.mark.parametrize("kind", CORPUS)
def test_estimates_are_within_bounds_of_o200k_for_every_script(kind):
    exact = count_tokens(O200K, CORPUS[kind])
    assert 0.95 * exact <= estimate_tokens(CORPUS[kind]) <= 1.6 * exact


def test_four_characters_a_token_would_undercount_the_corpus():
    # Keeps the corpus honest: the old rule is wrong by more than a third here.
    for kind in ("zh", "ja", "ko", "base64"):
        assert len(CORPUS[kind]) / 4 < 0.67 * count_tokens(O200K, CORPUS[kind])


@pytest.mark.parametrize("kinds", [("en", "zh"), ("python", "ru"), ("json", "ar"), ("log", "ja")])
def test_estimates_of_mixed_scripts_are_within_bounds_of_o200k(kinds):
    text = "\n".join(CORPUS[kind] for kind in kinds) * 3
    exact = count_tokens(O200K, text)
    assert 0.95 * exact <= estimate_tokens(text) <= 1.6 * exact


@given(st.text(st.characters(), max_size=400))
def test_any_text_has_an_estimate(text):
    tokens = estimate_tokens(text)
    assert (tokens == 0) == (text == "")
    # A character has at most four bytes, and a token is at least one byte.
    assert tokens <= 6 * len(text) + 2


@given(st.text(max_size=80), st.integers(2, 30))
def test_estimates_grow_with_the_text(text, times):
    assert estimate_tokens(text * times) >= estimate_tokens(text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        *("a" * 10**6, "A" * 10**6, "é" * 10**6, "aé" * 500_000, " " * 10**6, "\n" * 10**6),
        *(
            "中" * 10**6,
            "\ud800" * 10**6,
            "-" * 10**6,
            "_" * 10**6,
            "1" * 10**6,
            "A" * 999_999 + "é",
        ),
        CORPUS["en"] * 3_000,
    ],
    ids=lambda text: ascii(text[:2]),
)
def test_a_megabyte_of_repeated_text_is_estimated_in_linear_time(text):
    started = time.process_time()
    assert estimate_tokens(text) > 1_000
    assert time.process_time() - started < 10  # against a hang: it takes about 0.1 seconds

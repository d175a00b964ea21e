"""The exact counter, its guards and its cache."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_tokenmem.tokens.cache import CountCache
from langchain_tokenmem.tokens.counters import TiktokenCounter
from langchain_tokenmem.tokens.encodings import count_tokens, find_encoding
from langchain_tokenmem.tokens.resolve import counter_for
from tests.strategies import conversations, texts

O200K = find_encoding("o200k_base")
CL100K = find_encoding("cl100k_base")
SPECIALS = [
    *("<|endoftext|>", "<|endofprompt|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>"),
    *("<|im_start|>", "<|im_end|>", "<|start|>", "<|channel|>", "<|return|>"),
]


def fresh() -> TiktokenCounter:
    return TiktokenCounter(O200K)


def test_known_numbers():
    # Checked with OpenAI's own tokenizer page.
    assert O200K.encode_ordinary("hello world") == [24912, 2375]
    assert CL100K.encode_ordinary("hello world") == [15339, 1917]


@pytest.mark.parametrize("special", SPECIALS)
def test_special_tokens_are_counted_as_ordinary_text(special):
    assert fresh().text(f"a {special} b") > 3
    assert fresh().message(HumanMessage(special)) > 4


@given(st.one_of(texts(), st.text(max_size=300)))
@pytest.mark.parametrize("encoding", [O200K, CL100K], ids=["o200k", "cl100k"])
def test_a_count_is_that_of_the_vocabulary(encoding, text):
    assert count_tokens(encoding, text) == len(encoding.encode_ordinary(text))


RUNS = [
    "a",
    "A",
    " ",
    "\n",
    " \n",
    "-",
    "_",
    "中",
    "😀",
    "ก",
    "ि",
    "7",
    "\ud800",
    "ª",
    "\u0301",
    "aB",
]


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS, ids=ascii)
def test_a_megabyte_of_one_character_is_counted_quickly(run):
    started = time.process_time()
    tokens = fresh().text(run * (1_200_000 // len(run)))
    assert tokens > 1_000
    assert time.process_time() - started < 20  # against a hang: it takes about 0.5 seconds


def test_long_runs_of_blanks_are_counted_within_a_small_error():
    text = "Some words before." + " " * 250_000 + "and after" + "\n" * 99_000 + "end."
    exact = len(O200K.encode_ordinary(text))
    assert exact <= count_tokens(O200K, text) <= exact + 2


def test_lone_surrogates_are_counted():
    assert fresh().text("a \ud83d b \udc00") >= 4
    assert fresh().message(HumanMessage([{"type": "text", "text": "\ud800"}])) > 4
    assert (
        fresh().message(
            AIMessage("", tool_calls=[{"name": "f", "args": {"a": "\ud800"}, "id": "1"}])
        )
        > 8
    )


class Watched:
    """Counts how often each text is tokenized."""

    name = "watched"

    def __init__(self) -> None:
        self.texts: list[str] = []

    def encode_ordinary(self, text: str) -> list[int]:
        self.texts.append(text)
        return O200K.encode_ordinary(text)


def history(size: int) -> list:
    made = []
    for n in range(size // 4):
        call = {"name": "read", "args": {"path": f"/src/{n}.py"}, "id": f"call_{n}"}
        made += [
            HumanMessage(f"Question {n}: what is in file {n}?", id=f"h{n}"),
            AIMessage([{"type": "text", "text": f"I look {n}."}], tool_calls=[call], id=f"a{n}"),
            ToolMessage(f"line {n}\n" * (n % 400), tool_call_id=f"call_{n}", id=f"t{n}"),
            AIMessage(f"It holds {n} lines.", id=f"b{n}"),
        ]
    return made


def test_only_new_messages_are_tokenized():
    encoding = Watched()
    counter = TiktokenCounter(encoding)
    messages = history(400)
    first = counter.count(messages)
    assert encoding.texts
    encoding.texts.clear()
    assert counter.count(messages) == first
    assert encoding.texts == []
    counter.count([*messages, HumanMessage("One more question")])
    assert encoding.texts == ["user", "One more question"]


def test_the_count_cache_is_keyed_by_content_not_by_identity_or_id():
    encoding = Watched()
    counter = TiktokenCounter(encoding)
    short, long = HumanMessage("hi", id="1"), HumanMessage("word " * 2_000, id="2")
    blocks = AIMessage([{"type": "text", "text": "one"}], id="3")
    before = [counter.message(m) for m in (short, long, blocks)]
    encoding.texts.clear()
    copies = [m.model_copy(update={"id": "other"}, deep=True) for m in (short, long, blocks)]
    assert [counter.message(m) for m in copies] == before
    assert encoding.texts == []
    short.content = "hi, how are you?"
    long.content = "word " * 2_001
    blocks.content[0]["text"] = "one two three four"
    assert all(counter.message(m) > b for m, b in zip((short, long, blocks), before, strict=True))


def test_everything_that_counts_is_part_of_the_cache_key():
    counter = fresh()
    call = {"name": "f", "args": {"a": 1}, "id": "1"}
    variants = [
        HumanMessage("x"),
        HumanMessage("x", name="Ann"),
        AIMessage("x"),
        AIMessage("x", tool_calls=[call]),
        AIMessage("x", tool_calls=[{**call, "args": {"a": "a long argument"}}]),
        AIMessage("x", additional_kwargs={"reasoning_content": "hm hm hm hm"}),
        ToolMessage("x", tool_call_id="1"),
        ToolMessage("x", tool_call_id="a_much_longer_identifier"),
    ]
    assert [counter.message(m) for m in variants] == [fresh().message(m) for m in variants]


@given(conversations())
def test_a_count_is_the_sum_of_its_messages(messages):
    counter = counter_for("gpt-4o")
    whole = counter.count(messages).tokens
    assert whole == 3 + sum(counter.message(m) for m in messages)
    uncached = TiktokenCounter(O200K, image_rule="openai")
    assert whole == 3 + sum(map(uncached.message, messages))


@pytest.mark.slow
def test_ten_thousand_cached_messages_are_counted_quickly():
    counter = fresh()
    messages = history(10_000)
    counter.count(messages)
    started = time.process_time()
    counter.count(messages)
    assert time.process_time() - started < 2  # against O(n^2): it takes about 0.015 seconds


def test_the_cache_is_bounded_and_keeps_what_is_used():
    cache = CountCache(10)
    for n in range(1_000):
        cache.put(n, n + 1)
        assert cache.get(0) == 1
        assert len(cache) <= 20
    assert cache.get(5) is None
    assert cache.get(999) == 1_000


def test_counters_are_shared_by_threads():
    counter, barrier = fresh(), threading.Barrier(8)
    messages = history(200)

    def count() -> int:
        barrier.wait(timeout=10)
        return counter.count(messages).tokens

    with ThreadPoolExecutor(8) as pool:
        results = {future.result() for future in [pool.submit(count) for _ in range(8)]}
    assert results == {fresh().count(messages).tokens}

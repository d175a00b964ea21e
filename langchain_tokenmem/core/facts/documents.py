"""What a page or document that was read is about: its title and headings."""

from __future__ import annotations

import html
import re

_PAGE = re.compile(
    r"\s*<(?:!doctype html|html)\b.{0,4000}?<title[^>]{0,80}>([^<]{1,300})<",
    re.DOTALL | re.IGNORECASE,
)
_READER = re.compile(r"Title: ([^\n]{1,300})\n")
"""As readers of pages for language models begin."""
_BROWSER = re.compile(
    r"(?:### Ran Playwright code\s*```js\n.{0,2000}?```\s*)?(?:### Page[^\n]{0,20}\n)?"
    r"- Page URL: [^\n]{0,2000}\n- Page Title: ([^\n]{1,300})",
    re.DOTALL,
)
"""As a browser shows where it is after an action that has no other result."""
_FIELDS = r"(?:[A-Z][\w-]{1,30}: [^\n]{0,300}\n){0,8}"
_MAIL = re.compile(rf"{_FIELDS}From: ([^\n]{{1,100}})\n{_FIELDS}Subject: ([^\n]{{1,300}})\n")
_NAVIGATION = 600
"""Characters that a page may have before its title, such as links."""
_HEADING = re.compile(r"(?:\A|\n[ \t]*\n) {0,3}(#{1,4}) +([^\s#][^\n]{0,300})(?=\n|\Z)")
_FENCE = re.compile(r"^ {0,3}```.*?^ {0,3}```", re.MULTILINE | re.DOTALL)
_LINE_NUMBER = re.compile(r"^ *\d+(?:\t|→)", re.MULTILINE)
"""What tools that read files put before each line."""
_DECORATION = re.compile(
    r"!\[[^\]]*\]\([^)]*\)|\[[¶#]\]\([^)]*\)|\{#[^}]*\}|¶|\*{1,3}"
    r"|</?(?:a|b|br|code|em|i|img|p|small|span|strong|su[bp])\b[^>]*>"
)
_SIGNS = str.maketrans("[]→", "()-")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_ANY = re.compile(
    r"(?:table of )?contents|next steps|see also|overview|summary|introduction|background"
    r"|analysis|details|description|results|conclusions?|comments|options|synopsis|license",
    re.IGNORECASE,
)
"""Headings that any document may have."""


def outline_of(text: str, *, is_read: bool) -> tuple[str, list[str]]:
    r"""Return the title of a document, and the headings that say what it is about.

    Args:
        text: The result of a tool.
        is_read: Whether a file or page was read; of other results, only those of a browser have a
            title.

    Returns:
        Title and headings; an empty title for any other text.

    Example:
        >>> outline_of("# Tax\n\nWho pays?\n\n## Summary\n\n## Rates\n\nHalf.", is_read=True)
        ('Tax', ['Rates'])
    """
    if named := _BROWSER.match(text):
        return _clean(named[1]), []
    if not is_read:
        return "", []
    if text.count("\nSubject: ") == 1 and (named := _MAIL.match(text)):
        return f"{_clean(named[1])}: {_clean(named[2])}", []
    plain = _FENCE.sub("", _LINE_NUMBER.sub("", text))
    found = [(one[1], _clean(one[2]), one.start()) for one in _HEADING.finditer(plain)]
    named = _PAGE.match(text) or _READER.match(text)
    is_comment = all(level == "#" for level, *_ in found)
    if not named and (is_comment or found[0][0] != "#" or found[0][2] > _NAVIGATION):
        return "", []
    title = _clean(html.unescape(named[1])) if named else found[0][1]
    names = dict.fromkeys(name for _, name, _ in found)
    rest = [name for name in names if name and name != title and not _ANY.fullmatch(name)]
    return (title, rest) if named or rest else ("", [])


def _clean(name: str) -> str:
    """Return a heading without links, tags and marks, and without the signs of the log."""
    plain = _LINK.sub(r"\1", _DECORATION.sub("", name)).translate(_SIGNS)
    return "".join(filter(str.isprintable, " ".join(plain.split()))).rstrip(" #-=")

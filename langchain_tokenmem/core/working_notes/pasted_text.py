"""Texts that users paste to have them translated, corrected or answered: not what they state."""

from __future__ import annotations

import re

from langchain_tokenmem.core.facts.sentences import any_of
from langchain_tokenmem.core.working_notes.sentence_rules import (
    constraints_in,
    note_sentences,
    pattern,
    request_in,
)

# ruff: noqa: RUF001 - the colon of other scripts is meant

_WORK_ON_TEXT = re.compile(
    rf"(?<!\w)(?:{any_of('text_work')}(?: [^\s.:!?]+){{0,3}}? {any_of('text_noun')}"
    rf"|{any_of('text_phrase')})(?: {any_of('text_joint')}\b[^\n.!?:：]{{0,40}})?"
    r"(?: ?[:：](?!\s*[\"“«„])|[.!?]?[ \t]*\n[ \t]*\n)",
    re.IGNORECASE,
)


def without_pasted_text(text: str) -> str:
    """Return a message without the text that it asks to work on.

    The request names the work and the text ("Translate this letter"), and a colon or an empty line
    follows. The last paragraph after it stays if it asks for something or sets a rule. What begins
    with a rule, as in "Shorten this text: it must have one page", is no text.

    Example:
        >>> without_pasted_text("Proofread this paragraph: I live in Lyon.")
        'Proofread this paragraph:'
    """
    found = _WORK_ON_TEXT.search(text)
    if not found:
        return text
    pasted = text[found.end() :].strip()
    if _directs(next(note_sentences(pasted), "")):
        return text
    first, _, last = pasted.rpartition("\n\n")
    stays = first and any(map(_directs, note_sentences(last)))
    return f"{text[: found.end()]}\n{last if stays else ''}".rstrip()


def _directs(sentence: str) -> bool:
    return (
        request_in([sentence]) is not None
        or any(constraints_in(sentence))
        or pattern("rule_modal").search(sentence) is not None
    )

"""What users say themselves in a message that a program made from a template.

Retrieval chains put documents around a question, editors put files and settings around a request.
What such data say is no wish, fact or decision of the user. In doubt a message is read as it is: a
word of the user that is missing is worse than one too many.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from langchain_tokenmem.core.facts.sentences import any_of, cues

# ruff: noqa: RUF001 - the colon of other scripts is meant

FEWEST_DATA = 400
"""A tagged part with fewer characters may be written by the user, unless a question has a tag."""

_FENCE_OR_TAG = re.compile(
    r"(?:^|(?<=>))[ \t]*"
    r"(?:(?P<fence>```|~~~)|<(?P<name>[A-Za-z][\w-]{0,40})(?:\s[^<>\n]{0,200})?>)",
    re.MULTILINE,
)
_WORD_BORDER = re.compile(r"(?<=[a-z])(?=[A-Z])|-")
_DATA_TAG = re.compile(rf"(?:.*_)?{any_of('data_tag')}")
_PROGRAM_TAG = re.compile(rf"(?:.*_)?{any_of('program_tag')}")
_QUESTION_TAG = re.compile(any_of("question_tag"))
_MOST_UNCLOSED = 50
"""Tags without an end after which a text is source code, and no longer searched."""
_SPEAKERS = re.compile(r"histor|memor|transcript|verlauf", re.IGNORECASE)
"""Names of data in which others speak in the first person."""
_BEGINNING = 150
"""Characters at the beginning of a part that show who speaks in it."""

_FEWEST_SIGNS = 2
"""Signs by which a message with a labelled question is a prompt: data, the mention of data, and a
label for the answer."""
_LABEL = re.compile(
    rf"^(?P<mark>#{{1,6}} |[*_]{{2}})?"
    rf"(?:(?P<data>{any_of('data_label')})|{any_of('question_label')})"
    # A heading needs no colon, and has its line for itself.
    r"(?(mark)[:： *_]{0,6}(?=\n)|(?: ?[:：]| is below))",
    re.IGNORECASE | re.MULTILINE,
)
_ANSWER_LABEL = re.compile(
    rf"\n[*_]{{0,2}}{any_of('answer_label')}[*_]{{0,2}} ?[:：]\s*\Z", re.IGNORECASE
)


def own_words(text: str) -> str:
    r"""Return what a user says in a message, without the data and the template around it.

    If a tag or a label marks the question, the result is the question, and after it the lines
    around the data that speak in the first person; other lines are the template's. Else it is the
    text around tagged data, such as `<documents>`. Tags count if they begin a line outside of code
    fences and are closed; labels count in a prompt that speaks of its data, or ends in a label for
    the answer. A part that begins in the first person is no data. A message without data, or with
    nothing else, is returned as it is.

    Args:
        text: The text of a message.

    Example:
        >>> own_words("<context>\nKeys live long.\n</context>\n<question>How long?</question>")
        'How long?'
    """
    around = _tagged(text)
    return _labelled(around or text, has_data=bool(around)) or around or text


class _Block(NamedTuple):
    """A tagged part of a message: its place with the tags, the tag's name, what is inside."""

    start: int
    end: int
    name: str
    inside: str

    @property
    def is_question(self) -> bool:
        return _QUESTION_TAG.fullmatch(self.name) is not None


def _tagged(text: str) -> str:
    """Return the question, or else the words around tagged data; empty without such data."""
    blocks = [*_blocks(text)]
    questions = [one.inside.strip() for one in blocks if one.is_question]
    left_out = [
        one
        for one in blocks
        if one.is_question
        or _PROGRAM_TAG.fullmatch(one.name)
        or ((questions or len(one.inside) >= FEWEST_DATA) and not _is_own(one.name, one.inside))
    ]
    if len(left_out) == len(questions):
        return ""
    ends, starts = [0, *(one.end for one in left_out)], [one.start for one in left_out]
    around = "".join(text[end:start] for end, start in zip(ends, [*starts, None], strict=True))
    return "\n".join([*questions, *_own_lines(around)]) if questions else around.strip()


def _is_own(name: str, part: str) -> bool:
    """Return whether a part with this name begins like words of the user."""
    beginning = part[:_BEGINNING]
    return cues("first_person").search(beginning) is not None and not _SPEAKERS.search(name)


def _own_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if cues("first_person").search(line)]


def _blocks(text: str) -> Iterator[_Block]:
    """Yield the outermost parts with a tag of data or of a question."""
    end, in_fence, unclosed = 0, False, set[str]()
    for match in _FENCE_OR_TAG.finditer(text):
        if match.start() < end:
            continue
        if match["fence"]:
            in_fence = not in_fence
            continue
        tag = match["name"]
        name = _WORD_BORDER.sub("_", tag).lower()
        is_known = _DATA_TAG.fullmatch(name) or _QUESTION_TAG.fullmatch(name)
        if in_fence or tag in unclosed or not is_known:
            continue
        closing = f"</{tag}>"
        found = text.find(closing, match.end())
        if found >= 0:
            end = found + len(closing)
            yield _Block(match.start(), end, name, text[match.end() : found])
        else:
            unclosed.add(tag)
            if len(unclosed) > _MOST_UNCLOSED:
                return


def _labelled(text: str, *, has_data: bool) -> str:
    """Return the question that a label marks before or after the data; empty without a label.

    Args:
        text: The message without tagged data.
        has_data: Whether it had some.
    """
    prompt = _ANSWER_LABEL.sub("", text)
    has_answer, speaks_of_data = len(prompt) < len(text), bool(cues("of_data").search(text))
    labels = [*_LABEL.finditer(prompt)]
    data = next((label for label in labels if label["data"]), None)
    questions = [label for label in labels if not label["data"]]
    signs = [has_answer, speaks_of_data, has_data or data is not None]
    if not questions or sum(signs) < _FEWEST_SIGNS:
        return ""
    if data and questions[0].start() < data.start():
        question, part = prompt[questions[0].end() : data.start()], prompt[data.end() :]
    else:
        question = prompt[questions[-1].end() :]
        part = prompt[data.end() : questions[-1].start()] if data else ""
    if not question.strip() or (data and _is_own(data[0], part)):
        return ""
    # Without a label, nothing shows where in front of the question the data begin.
    around = prompt[: labels[0].start()] if data else prompt.partition("\n")[0]
    return "\n".join([question.strip(), *_own_lines(around)])

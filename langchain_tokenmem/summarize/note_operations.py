"""Operations on working notes that stand behind an entry: cut off, and parsed.

They stand in the entry's own answer, as JSON in a fence: so they need no further call, no tool and
no form of answer, and the request that is sent again keeps the settings of the main one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from langchain_tokenmem.summarize.base import ProposedOperation

OPERATIONS_FENCE = "note_operations"

MAX_OPERATIONS = 10
"""Operations of one answer; the first ones."""

_MOST_CHARACTERS = 20_000
"""Characters of a block that is read; a longer one is no answer to the order."""

_BLOCK = re.compile(
    rf"<{OPERATIONS_FENCE}\b[^>]*>(.*?)(?:</{OPERATIONS_FENCE}\s*>|\Z)", re.DOTALL | re.IGNORECASE
)
_LIST = re.compile(r"\[.*\]", re.DOTALL)


def split_operations(text: str) -> tuple[str, tuple[ProposedOperation, ...]]:
    r"""Return an answer without its block of operations, and what stands in this.

    A block that is missing, blank or no JSON is none; one that is not closed ends the answer.

    Args:
        text: The text of the answer.

    Example:
        >>> answer = '- Ship it.\n<note_operations>[{"op": "add", "section": "task", "quote": "x"}]'
        >>> split_operations(answer)
        ('- Ship it.', ({'op': 'add', 'section': 'task', 'quote': 'x'},))
    """
    blocks = _BLOCK.findall(text)
    return _BLOCK.sub("", text).strip(), _parsed(blocks[-1]) if blocks else ()


def as_operations(found: Any) -> tuple[ProposedOperation, ...]:
    """Return those of a list that are operations, at most 10; nothing of anything else."""
    if not isinstance(found, Iterable):
        return ()
    kept: list[ProposedOperation] = []
    for one in found:
        try:
            kept.append(_schema().validate_python(one, strict=True))
        except ValidationError:
            continue
        if len(kept) == MAX_OPERATIONS:
            break
    return tuple(kept)


def _parsed(block: str) -> tuple[ProposedOperation, ...]:
    listed = _LIST.search(block) if len(block) <= _MOST_CHARACTERS else None
    if listed is None:
        return ()
    try:
        return as_operations(json.loads(listed[0]))
    except (ValueError, RecursionError):
        return ()


@cache
def _schema() -> TypeAdapter[ProposedOperation]:
    """Return the check of an operation; built at the first one, which keeps the import light."""
    return TypeAdapter(ProposedOperation)

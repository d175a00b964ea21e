"""Exit codes of commands, as their results report them."""

from __future__ import annotations

import json
import re
from contextlib import suppress

from langchain_core.messages import ToolMessage

from langchain_tokenmem.core.error_signs import exit_code_in
from langchain_tokenmem.core.messages import text_of

_NESTED = ("metadata", "result", "output", "data")
"""Keys of JSON objects in which a result may hold its exit code."""
_MAX_JSON = 200_000
_EDGE = 600
_LONGEST_LINE = 200
_REPORT = re.compile(
    r"\W{0,8}(?:\w{1,20}>\s?)?(?:(?:the|command|process|program|script|shell|tool|task|job|completed|finished|failed"
    r"|terminated|ended|with|has|an?|error|non-?zero)[ :,]{1,3}){0,8}"
    r"(?:exit|return)(?:ed)?(?:[ _-]?(?:with )?(?:an? )?(?:exit |return )?(?:code|status)| with)"
    r"(?: was| is| of)?[\"' :=>(]{1,4}(-?\d{1,10})\b"
    r"(?:\s*[(\[,;-].{0,80}|\W{0,8}(?:</\w{1,20}>)?\W*)",
    re.IGNORECASE,
)
_TEXT_BLOCK = re.compile(r"[\"']text[\"']\s*:\s*[\"']")


def exit_code_of(message: ToolMessage) -> int | None:
    """Return the exit code that a result reports; None where it reports none.

    It stands in the artifact (`exit_code`, `returncode`), in JSON content, or in the first or the
    last line: `Exit code: 1`, `[The command completed with exit code 1.]`.
    """
    code = exit_code_in(message.artifact) if message.artifact is not None else None
    if code is not None:
        return code
    text = plain_result(message)
    if text.startswith("{") and len(text) <= _MAX_JSON:
        code = _code_in_json(text)
        if code is not None:
            return code
    lines = [*text[:_EDGE].splitlines()[:1], *text[-_EDGE:].rstrip().splitlines()[-1:]]
    return next((code for line in lines if (code := reported_code(line)) is not None), None)


def reported_code(line: str) -> int | None:
    """Return the exit code that a line reports which says nothing else; None where it does not."""
    match = _REPORT.fullmatch(line.strip()) if len(line) <= _LONGEST_LINE else None
    return int(match[1]) if match else None


def plain_result(message: ToolMessage) -> str:
    """Return the text of a result, out of the JSON blocks that MCP servers send it in."""
    text = text_of(message).strip()
    if not (text.startswith(("[{", '{"')) and len(text) <= _MAX_JSON):
        return text
    if not _TEXT_BLOCK.search(text[:_EDGE]):
        return text
    with suppress(ValueError, RecursionError, TypeError, KeyError):
        found = json.loads(text)
        blocks = found if isinstance(found, list) else [found]
        texts = [str(block["text"]) for block in blocks]
        return "\n".join(texts).strip()
    return text


def _code_in_json(text: str) -> int | None:
    with suppress(ValueError, RecursionError):
        found = json.loads(text)
        places = [found, *(found[key] for key in _NESTED if isinstance(found.get(key), dict))]
        return next((code for one in places if (code := exit_code_in(one)) is not None), None)
    return None

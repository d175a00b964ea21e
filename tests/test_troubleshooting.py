"""Each message that docs/troubleshooting.md quotes is one that the package really gives."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "troubleshooting.md"
QUOTED = re.compile(r"^\| `(.+?)` \|", re.MULTILINE)
PLACEHOLDER = re.compile(r"%[-\w.]*[a-zA-Z]")


def texts(tree: ast.AST) -> Iterator[str]:
    """Yield the texts of a module; what is filled in at run time is a line break in them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "\n" for part in node.values)
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield PLACEHOLDER.sub("\n", node.value)


@cache
def texts_of_the_package() -> tuple[str, ...]:
    files = sorted((ROOT / "langchain_tokenmem").rglob("*.py"))
    return tuple(
        text for file in files for text in texts(ast.parse(file.read_text(encoding="utf-8")))
    )


@pytest.mark.slow
@pytest.mark.parametrize("quoted", QUOTED.findall(PAGE.read_text(encoding="utf-8")))
def test_the_package_gives_each_message_of_the_page(quoted):
    # The message may be longer than what the page quotes of it.
    pieces = [piece for piece in quoted.split("...") if piece.strip()]
    pattern = re.compile(".*".join(map(re.escape, pieces)), re.DOTALL)
    assert any(pattern.search(text) for text in texts_of_the_package()), quoted


def test_the_page_quotes_many_messages():
    assert len(QUOTED.findall(PAGE.read_text(encoding="utf-8"))) > 50

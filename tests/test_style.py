"""House rules of the package's code that no linter checks."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path

from tests.source_trees import parsed

PACKAGE = Path(__file__).parent.parent / "langchain_tokenmem"
MAX_LINES, MAX_FUNCTION_LINES = 300, 50
QUESTION = re.compile(r"\s*(?:what|how|whose|whatever|who|which|where|why)\b", re.IGNORECASE)


@cache
def sources() -> dict[str, str]:
    """Return the source of every module, by its path."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return {str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8") for path in paths}


@cache
def definitions() -> list[tuple[str, ast.AST]]:
    """Return every module, class and function with its path."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    trees = ((path, ast.walk(parsed(source))) for path, source in sources().items())
    return [(path, node) for path, tree in trees for node in tree if isinstance(node, kinds)]


def nodes(*kinds: type[ast.AST]) -> list[tuple[str, ast.AST]]:
    return [(path, node) for path, node in definitions() if isinstance(node, kinds)]


def where(path: str, node: ast.AST) -> str:
    return f"{path}:{getattr(node, 'lineno', 0)}"


def code_lines(function: ast.AST) -> int:
    """Return the lines of a function's body without its docstring."""
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (function.end_lineno or 0) - body[0].lineno + 1 if body else 0


def docstrings() -> list[tuple[str, str]]:
    """Return every docstring with its place: of modules, classes, functions and attributes."""
    found = []
    for path, node in nodes(ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef):
        assert isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        before: list[ast.AST] = [node, *node.body]
        for previous, one in pairwise(before):
            is_text = isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)
            if is_text and isinstance(previous, ast.Assign | ast.AnnAssign | type(node)):
                assert isinstance(one, ast.Expr)
                assert isinstance(one.value, ast.Constant)
                found.append((f"{path}:{one.lineno}", str(one.value.value)))
    return found


def test_no_class_name_stands_twice():
    names = Counter(node.name for _, node in nodes(ast.ClassDef) if isinstance(node, ast.ClassDef))
    assert len(names) > 300
    assert [name for name, count in names.items() if count > 1] == []


def test_no_file_is_longer_than_a_few_screens():
    lines = {path: source.count("\n") for path, source in sources().items()}
    assert {path: count for path, count in lines.items() if count > MAX_LINES} == {}


def test_no_function_is_longer_than_a_screen():
    functions = nodes(ast.FunctionDef, ast.AsyncFunctionDef)
    assert len(functions) > 2_000
    assert [where(*one) for one in functions if code_lines(one[1]) > MAX_FUNCTION_LINES] == []


def test_no_docstring_begins_as_a_question():
    found = docstrings()
    assert len(found) > 2_000
    assert [(place, text) for place, text in found if QUESTION.match(text)] == []

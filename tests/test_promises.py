"""docs/promises.md links every contract test, and no line cites what the repository lacks."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from mkdocs_hooks import on_page_markdown

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "promises.md"
CONTRACT = ROOT / "tests" / "contract"
MOST_WORDS = 900
FOLDERS = ("langchain_tokenmem", "tests", "integration_tests", "benchmarks", "examples", "docs")

TOP_FUNCTION = re.compile(r"^(?:async )?def (\w+)", re.MULTILINE)
TEST_LINK = re.compile(r"\[`(test_\w+\.py)`\]\(\.\./tests/contract/\1\)")
ANY_LINK = re.compile(r"\]\(([^)#]+)[^)]*\)")
CODE_IN_NAME = re.compile(r"(?:^|_)[A-Z]\d+(?:_|$)")
CODE_IN_TEXT = re.compile(r"(?<![\w.@/`-])[ABCDMPRSTV](?:1\d|2[0-4]|[1-9])(?![\w.`-])")
"""A number in a list of failures that only its authors have, such as the letter B with 11."""

NOWHERE = re.compile(r"FIELD_FAILURES|[Ff]ield failures?\b|\.\./shared")
NOTE = re.compile(r"\b[A-Z][A-Z_]{2,}\.md\b")
PLACE = re.compile(
    r"(?<![\w./-])(?:docs|tests|integration_tests|benchmarks|examples)(?:/\w+)+\.(?:md|py)\b"
)


def entries() -> dict[str, list[str]]:
    """Return the entries of the page under each heading."""
    parts = re.split(r"^## (.+)\n", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {
        title: re.split(r"^- ", text, flags=re.MULTILINE)[1:]
        for title, text in zip(parts[1::2], parts[2::2], strict=True)
    }


@cache
def functions_of(path: Path) -> list[str]:
    """Return the names of the functions that a file defines at its top."""
    return TOP_FUNCTION.findall(path.read_text(encoding="utf-8"))


def files() -> list[Path]:
    """Return every text of the repository, but for this file, which names what it looks for."""
    found = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.*"))]
    kept = [path for path in found if path.suffix in {".md", ".py"} and path != Path(__file__)]
    return [*sorted(ROOT.glob("*.md")), *kept]


def prose_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines that are written for readers: comments, docstrings, all of a page."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from enumerate(text.splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines = str(node.value.value).splitlines()
            yield from enumerate(lines, node.lineno)


def faults_of(line: str) -> list[str]:
    """Return the codes, and the citations of files that are not there, in a line of prose."""
    cited = [*NOTE.findall(line), *PLACE.findall(line)]
    return [*CODE_IN_TEXT.findall(line), *(name for name in cited if not (ROOT / name).is_file())]


def test_the_page_links_each_file_of_contract_tests_once_and_is_short():
    text = PAGE.read_text(encoding="utf-8")
    assert sorted(TEST_LINK.findall(text)) == sorted(p.name for p in CONTRACT.glob("test_*.py"))
    assert len(text.split()) <= MOST_WORDS


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_every_link_between_files_resolves(page):
    links = ANY_LINK.findall(page.read_text(encoding="utf-8"))
    files_linked = [link for link in links if "://" not in link]
    assert [link for link in files_linked if not (page.parent / link).is_file()] == []


def test_every_promise_has_its_tests():
    promises = [entry for section in entries().values() for entry in section]
    assert len(promises) > 10
    assert [entry for entry in promises if len(TEST_LINK.findall(entry)) != 1] == []


def test_links_to_contract_tests_lead_to_pages_of_the_site():
    linked = ANY_LINK.findall(on_page_markdown(PAGE.read_text(encoding="utf-8")))
    assert linked
    for link in linked:
        assert re.fullmatch(r"contract/test_\w+\.md", link), link


def test_no_test_name_carries_a_code():
    tests = [path for path in files() if path.name.startswith("test_")]
    named = [(path.name, name) for path in tests for name in functions_of(path)]
    assert len(named) > 500
    assert [(file, name) for file, name in named if CODE_IN_NAME.search(name)] == []


@pytest.mark.slow
def test_no_line_carries_a_code_or_cites_what_is_not_in_the_repository():
    found = [
        f"{path.relative_to(ROOT)}:{number}: {fault}"
        for path in files()
        for number, line in prose_of(path)
        for fault in faults_of(line)
    ]
    found += [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if NOWHERE.search(line) and "TOKENMEM_DATA" not in line
    ]
    assert found == []


@pytest.mark.parametrize(
    ("line", "faults"),
    [
        ("# A4: the parent has each message once", ["A4"]),
        ("Groups P12, P13: what goes in comes out", ["P12", "P13"]),
        ("reported as done (S8).", ["S8"]),
        ("18 points on LoCoMo (FACTS.md).", ["FACTS.md"]),
        ("see docs/gone.md", ["docs/gone.md"]),
        ("see docs/promises.md and README.md", []),
        ("GPT-4o, Qwen3, 0xC4, R@5, B1024, S0-0, GB18030 and V26", []),
    ],
)
def test_a_planted_fault_is_found(line, faults):
    assert faults_of(line) == faults


def test_a_planted_code_in_a_name_is_found():
    assert CODE_IN_NAME.search("test_B11_the_budget_holds")
    assert not CODE_IN_NAME.search("test_o200k_models_are_counted_exactly")

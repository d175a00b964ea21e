"""docs/promises.md links every contract test, and every link of the docs resolves."""

import re
from pathlib import Path

import pytest

from mkdocs_hooks import on_page_markdown

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "promises.md"
CONTRACT = ROOT / "tests" / "contract"
MOST_WORDS = 900

TEST_LINK = re.compile(r"\[`(test_\w+\.py)`\]\(\.\./tests/contract/\1\)")
ANY_LINK = re.compile(r"\]\(([^)#]+)[^)]*\)")


def entries() -> dict[str, list[str]]:
    """Return the entries of the page under each heading."""
    parts = re.split(r"^## (.+)\n", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {
        title: re.split(r"^- ", text, flags=re.MULTILINE)[1:]
        for title, text in zip(parts[1::2], parts[2::2], strict=True)
    }


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

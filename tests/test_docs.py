"""Undocumented means failing, and so does documentation that does not run."""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

import langchain_tokenmem
import mkdocs_hooks

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NEEDED = {"deepagents.md": "deepagents", "budget.md": "langchain_openai"}
"""Pages with a package that the tests are not always installed with."""
GENERATED = re.compile(r"<!-- begin of the table.*?<!-- end of the table", re.DOTALL)
MOST_WORDS = 26_000
"""Words of docs/ without the table of settings, which is generated."""
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_code_block_of_the_documentation_runs(page, tmp_path, monkeypatch):
    if page.name in NEEDED:
        pytest.importorskip(NEEDED[page.name])
    monkeypatch.chdir(tmp_path)
    for name in [one for one in os.environ if one.startswith("TOKENMEM_")]:
        monkeypatch.delenv(name)  # those of the tests are no settings
    script = ModuleType(f"docs_{page.stem}")
    monkeypatch.setitem(
        sys.modules, script.__name__, script
    )  # as a script is: types are found in it
    for code in BLOCK.findall(page.read_text(encoding="utf-8")):
        if any(f"from {name} " in code and find_spec(name) is None for name in NEEDED.values()):
            continue  # a block of a page that is about more
        exec(compile(code, page.name, "exec"), vars(script))  # noqa: S102


@pytest.mark.parametrize(
    "module", ["", ".counting", ".graphs", ".modes", ".notes", ".recall", ".tools", ".types"]
)
def test_every_public_name_is_documented(module):
    pages = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    names = import_module(f"langchain_tokenmem{module}").__all__
    assert [name for name in names if name not in pages] == []


@pytest.mark.parametrize("module", mkdocs_hooks.PUBLIC)
def test_the_reference_has_every_public_name(module):
    full = f"langchain_tokenmem.{module}".rstrip(".")
    page = mkdocs_hooks.reference(module)
    public = getattr(import_module(full), "__all__", [])
    assert page.count(f"::: {full}.") >= max(len(public), 3)
    assert [name for name in public if f"::: {full}.{name}\n" not in page] == []
    name = f"reference/{module or 'langchain_tokenmem'}.md"
    assert name in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", ["architecture.md", "ten_files.md"])
def test_every_file_that_a_page_names_is_there(page):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    named = re.findall(r"`((?:\w+/)*\w+\.py)`", text)
    package = Path(langchain_tokenmem.__file__).parent
    assert len(named) > 10
    assert [
        name for name in named if not ((package / name).is_file() or (ROOT / name).is_file())
    ] == []


def test_the_documentation_is_short():
    pages = (GENERATED.sub("", page.read_text(encoding="utf-8")) for page in PAGES[1:])
    words = [word for page in pages for word in page.split() if re.search(r"\w", word)]
    assert 20_000 < len(words) <= MOST_WORDS

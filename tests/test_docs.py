"""Undocumented means failing, and so does documentation that does not run."""

import ast
import doctest
import os
import re
import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

import langchain_tokenmem
import mkdocs_hooks

ROOT = Path(__file__).parents[1]
PACKAGE = Path(langchain_tokenmem.__file__).parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NEEDED = {"deepagents.md": "deepagents", "budget.md": "langchain_openai"}
"""Pages with a package that the tests are not always installed with."""
GENERATED = re.compile(r"<!-- begin of the table.*?<!-- end of the table", re.DOTALL)
MOST_WORDS = 26_000
"""Words of docs/ without the table of settings, which is generated."""
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """Run what a page shows in an empty folder, and without the settings of the tests."""
    monkeypatch.chdir(tmp_path)
    for name in [one for one in os.environ if one.startswith("TOKENMEM_")]:
        monkeypatch.delenv(name)


@pytest.mark.slow
@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_code_block_of_the_documentation_runs(page, monkeypatch):
    if page.name in NEEDED:
        pytest.importorskip(NEEDED[page.name])
    script = ModuleType(f"docs_{page.stem}")
    monkeypatch.setitem(sys.modules, script.__name__, script)  # types are found in a script
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
    assert len(named) > 10
    assert [n for n in named if not ((PACKAGE / n).is_file() or (ROOT / n).is_file())] == []


def test_the_documentation_is_short():
    pages = (GENERATED.sub("", page.read_text(encoding="utf-8")) for page in PAGES[1:])
    words = [word for page in pages for word in page.split() if re.search(r"\w", word)]
    assert 20_000 < len(words) <= MOST_WORDS


# Examples in docstrings

MODULES = [
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name):
    # The runner looks at every source file that is loaded, for each docstring.
    found = [one for one in doctest.DocTestFinder().find(import_module(name)) if one.examples]
    runner = doctest.DocTestRunner()
    assert [runner.run(one).failed for one in found] == [0] * len(found)
    assert found


# Messages that docs/troubleshooting.md quotes are those that the package gives

TROUBLES = ROOT / "docs" / "troubleshooting.md"
QUOTED = re.compile(r"^\| `(.+?)` \|", re.MULTILINE)
PLACEHOLDER = re.compile(r"%[-\w.]*[a-zA-Z]")


@cache
def texts_of_the_package() -> list[str]:
    """Return all texts in the code; what is filled in at run time is a line break in them."""
    found = []
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in PACKAGE.rglob("*.py")]
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "\n" for part in node.values)
            found.append("".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(PLACEHOLDER.sub("\n", node.value))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("quoted", QUOTED.findall(TROUBLES.read_text(encoding="utf-8")))
def test_the_package_gives_each_message_of_the_page(quoted):
    # The message may be longer than what the page quotes of it.
    pieces = [piece for piece in quoted.split("...") if piece.strip()]
    pattern = re.compile(".*".join(map(re.escape, pieces)), re.DOTALL)
    assert any(pattern.search(text) for text in texts_of_the_package()), quoted


def test_the_page_quotes_many_messages():
    assert len(QUOTED.findall(TROUBLES.read_text(encoding="utf-8"))) > 50

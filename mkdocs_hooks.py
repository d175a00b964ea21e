"""Hooks of the documentation's build, named in mkdocs.yml.

Pages link the tests of their promises. In the repository such a link leads to the file; on the
site, to a page with its text. The reference has every public name, by mkdocstrings, and every
command, by typer.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent / "tests" / "contract"
PUBLIC = (
    *("", "counting", "errors", "events", "graphs", "modes"),
    *("notes", "recall", "summarizers", "tools", "types"),
)
"""Modules with public names; the first is the package itself."""
LINK = re.compile(r"\]\(\.\./tests/contract/(test_\w+)\.py\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of the reference, and one for each file of contract tests."""
    from mkdocs.structure.files import File, InclusionLevel  # noqa: PLC0415  # tests lack MkDocs

    for path in sorted(TESTS.glob("test_*.py")):
        text = f"# {path.name}\n\n~~~~python\n{path.read_text(encoding='utf-8')}\n~~~~\n"
        name = f"contract/{path.stem}.md"
        page = File.generated(config, name, content=text, inclusion=InclusionLevel.NOT_IN_NAV)
        files.append(page)
    for module in PUBLIC:
        name = f"reference/{module or 'langchain_tokenmem'}.md"
        files.append(File.generated(config, name, content=reference(module)))
    files.append(File.generated(config, "reference/cli.md", content=commands()))
    return files


def reference(module: str) -> str:
    """Return the page of a module's public names, as mkdocstrings reads it."""
    full = f"langchain_tokenmem.{module}".rstrip(".")
    found = import_module(full)
    own = [name for name, value in vars(found).items() if getattr(value, "__module__", "") == full]
    names = sorted(getattr(found, "__all__", [name for name in own if not name.startswith("_")]))
    return f"# `{full}`\n\n" + "".join(f"::: {full}.{name}\n\n" for name in names)


def commands() -> str:
    """Return the page of the command `tokenmem`."""
    import typer  # noqa: PLC0415  # tests of this file need no extra
    from typer.cli import get_docs_for_click  # noqa: PLC0415

    from langchain_tokenmem.cli.app import app  # noqa: PLC0415

    command = typer.main.get_command(app)
    return get_docs_for_click(obj=command, ctx=typer.Context(command), name="tokenmem")


def on_page_markdown(markdown: str, **_context: Any) -> str:
    """Return a page whose links to contract tests lead to their pages on the site."""
    return LINK.sub(r"](contract/\1.md)", markdown)

"""Hooks of the documentation's build, named in mkdocs.yml.

Pages link the tests of their promises. In the repository such a link leads to the file; on the
site, to a page with its text.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent / "tests" / "contract"
LINK = re.compile(r"\]\(\.\./tests/contract/(test_\w+)\.py\)")


def on_files(files: Any, config: Any) -> Any:
    """Add a page for each file of contract tests."""
    from mkdocs.structure.files import File, InclusionLevel  # noqa: PLC0415  # tests lack MkDocs

    for path in sorted(TESTS.glob("test_*.py")):
        text = f"# {path.name}\n\n~~~~python\n{path.read_text(encoding='utf-8')}\n~~~~\n"
        name = f"contract/{path.stem}.md"
        page = File.generated(config, name, content=text, inclusion=InclusionLevel.NOT_IN_NAV)
        files.append(page)
    return files


def on_page_markdown(markdown: str, **_context: Any) -> str:
    """Return a page whose links to contract tests lead to their pages on the site."""
    return LINK.sub(r"](contract/\1.md)", markdown)

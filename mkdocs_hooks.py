"""Hooks of the documentation's build, named in mkdocs.yml."""

from __future__ import annotations

import re
from typing import Any

OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./[^)]+\)")


def on_page_markdown(markdown: str, **_context: Any) -> str:
    """Return a page in which links to files beside docs/ are plain names.

    In the repository they lead to tests; the site has no such files, and a strict build refuses
    dead links.
    """
    return OUTSIDE.sub(r"\1", markdown)

"""Syntax trees of sources, parsed once for all tests that look at the code."""

from __future__ import annotations

import ast
from functools import cache


@cache
def parsed(source: str) -> ast.Module:
    return ast.parse(source)

"""Every example in a docstring runs, and prints what it says."""

import doctest
import importlib
import os
from pathlib import Path

import pytest

import langchain_tokenmem

PACKAGE = Path(langchain_tokenmem.__file__).parent
MODULES = [
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for variable in [key for key in os.environ if key.startswith("TOKENMEM_")]:
        monkeypatch.delenv(variable)  # the tests' own ones would be taken for settings
    assert doctest.testmod(importlib.import_module(name)).failed == 0

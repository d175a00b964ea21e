"""No settings of the machine or its working directory reach a test."""

import os

import pytest


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch, tmp_path):
    for name in os.environ:
        if name.upper().startswith("TOKENMEM_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

"""Processes of their own for the workers of this folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import langchain_tokenmem


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a script on the package that this process uses, installed or not."""
    package = Path(langchain_tokenmem.__file__).parents[1]
    return subprocess.Popen(
        [sys.executable, script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(package)},
    )

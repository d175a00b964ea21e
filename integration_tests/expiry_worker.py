"""A process in which sessions expire until it is killed.

Run: python expiry_worker.py URL
"""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import langchain_tokenmem
from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.storage import lifecycle as expiring


def start(url: str) -> subprocess.Popen[str]:
    """Start one on the same package that this process uses."""
    return subprocess.Popen(
        [sys.executable, __file__, url],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(langchain_tokenmem.__file__).parents[1])},
    )


def main() -> None:
    expiring._MOST_SESSIONS = 5
    with TranscriptStore(sys.argv[1]) as store:
        store.expire(timedelta(days=30), progress=lambda done: print(done, flush=True))


if __name__ == "__main__":
    main()

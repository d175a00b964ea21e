"""A process in which sessions expire until it is killed.

Run: python expiry_worker.py URL
"""

from __future__ import annotations

import sys
from datetime import timedelta

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.storage import lifecycle as expiring


def main() -> None:
    expiring._MOST_SESSIONS = 5
    with TranscriptStore(sys.argv[1], shared=True) as store:
        store.expire(timedelta(days=30), progress=lambda done: print(done, flush=True))


if __name__ == "__main__":
    main()

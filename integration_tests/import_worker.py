"""Imports a SQL history into a store, and prints how many messages were added and known.

Usage: python import_worker.py SOURCE_URL STORE_URL
"""

from __future__ import annotations

import json
import sys

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.adapters.migration.community import sql_histories
from langchain_tokenmem.storage.imports.sources import history_engine


def main() -> None:
    """Do it."""
    source, target = sys.argv[1:]
    with history_engine(source) as engine, TranscriptStore(target) as store:
        ((name, history),) = sql_histories(engine)
        report = store.import_history(
            history, name, progress=lambda done: print(done, file=sys.stderr, flush=True)
        )
        print(json.dumps({"added": report.added, "known": report.known}))


if __name__ == "__main__":
    main()

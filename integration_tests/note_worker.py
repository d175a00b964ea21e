"""A process that adds notes by a notebook; tests start several.

Run: python note_worker.py PLACE WRITER COUNT SHARED, where PLACE is a database URL or a folder. It
adds COUNT notes of its own, and SHARED ones that every writer adds.
"""

from __future__ import annotations

import sys

from item_worker import open_store

from langchain_tokenmem import Notebook

OWNER = {"user_id": "ann", "session_id": "s1"}


def main() -> None:
    place, writer, count, shared = sys.argv[1:]
    notebook = Notebook(open_store(place), project="shop", limit=10_000)
    for number in range(int(count)):
        notebook.add(f"Writer {writer} wrote note {number}.", **OWNER)
        if number < int(shared):
            notebook.add(f"Everybody wrote note {number}.", **OWNER)
            print(f"Everybody wrote note {number}.")
        print(f"Writer {writer} wrote note {number}.")


if __name__ == "__main__":
    main()

"""`python -m langchain_tokenmem`: the same as the command `tokenmem`."""

from __future__ import annotations

from langchain_tokenmem.cli.main import main

if __name__ == "__main__":
    main()

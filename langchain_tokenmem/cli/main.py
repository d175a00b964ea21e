"""Entry point: checks for the optional libraries, then starts the command-line application."""

from __future__ import annotations

import sys

MISSING_LIBRARY = (
    "tokenmem needs {name}, which is not installed: pip install 'langchain-tokenmem[cli]'"
)
_OPTIONAL = frozenset({"typer", "rich"})


def main() -> None:
    """Run the command `tokenmem`.

    Leaves with 0 when all is well, with 1 when a request was over its limit or illegal, with 2
    when the command was used wrongly or a library is missing.
    """
    try:
        from langchain_tokenmem.cli.app import app  # noqa: PLC0415  the libraries are optional
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in _OPTIONAL:
            raise
        sys.stderr.write(MISSING_LIBRARY.format(name=library) + "\n")
        raise SystemExit(2) from None
    app()

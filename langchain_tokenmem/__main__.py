"""Entry point of the command `tokenmem` and of `python -m langchain_tokenmem`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command `tokenmem`.

    The exit code is 0 if all is well, 1 if a request was over its limit or illegal, and 2 if the
    command was used wrongly or a library is missing.
    """
    try:
        from langchain_tokenmem.cli.app import app  # noqa: PLC0415  # its libraries are optional
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in {"typer", "rich"}:
            raise
        sys.stderr.write(
            f"tokenmem needs {library}, which is not installed: "
            f"pip install 'langchain-tokenmem[cli]'\n"
        )
        raise SystemExit(2) from None
    app()


if __name__ == "__main__":
    main()

"""What every command prints with."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from datetime import datetime
from io import TextIOWrapper
from pathlib import Path
from typing import Any
from unicodedata import category

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from langchain_tokenmem.core.thread_names import NAMESPACE_SEPARATOR
from langchain_tokenmem.errors import ConfigurationError

_LISTED = 20
"""Lines of a list without `--verbose`."""
_JOINERS = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"
"""They form letters in Persian and Hindi, and emoji of several parts."""
_TYPED_SEPARATOR = "\N{SYMBOL FOR UNIT SEPARATOR}"


def output() -> Console:
    """Return what a command prints to; a text is printed as it is, without markup or emoji."""
    return Console(markup=False, emoji=False, highlight=False)


def error_output() -> Console:
    """Return the same for errors and progress."""
    return Console(markup=False, emoji=False, highlight=False, stderr=True)


def replace_unencodable() -> None:
    """Print `?` for what the encoding of the output lacks, as that of a pipe on Windows does."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


def write_json(value: Any) -> None:
    """Print a value as indented JSON: times in ISO 8601, dataclasses by their fields."""

    def plain(one: Any) -> Any:
        if isinstance(one, datetime):
            return one.isoformat()
        return asdict(one) if is_dataclass(one) and not isinstance(one, type) else list(one)

    sys.stdout.write(json.dumps(value, indent=2, default=plain) + "\n")


@contextmanager
def progress_bar() -> Iterator[Callable[..., None]]:
    """Show a bar on a terminal.

    Call what it yields with a description, steps done, and all steps if known.
    """
    terminal = error_output()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    bar = Progress(*columns, TimeElapsedColumn(), console=terminal, transient=True)
    bar.disable = not terminal.is_terminal  # else it would leave an empty line
    with bar as progress:
        task = progress.add_task("")

        def show(description: str, done: int, total: int | None = None) -> None:
            total = done if total is None else total
            progress.update(task, description=description[:40], completed=done, total=total)

        yield show


def check_output(file: Path, *, force: bool, store: Path | None = None) -> None:
    """Raise if a file must not be written: it exists, or is the store that is read."""
    if not file.exists():
        return
    if store is not None and file.samefile(store):
        raise ConfigurationError(f"{file} is the store itself; write to another file.")
    if not force:
        raise ConfigurationError(f"{file} already exists; --force overwrites it.")


# --- texts


def some(lines: Sequence[str], *, verbose: bool) -> list[str]:
    """Return the lines that a command lists: the first ones, and how many more there are."""
    if verbose or len(lines) <= _LISTED:
        return [*lines]
    return [*lines[:_LISTED], f"... and {len(lines) - _LISTED:,} more: --verbose lists them"]


def many(count: int, what: str) -> str:
    """Return a count with its noun: `1 message`, `1,200 messages`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def many_rows(counts: Mapping[str, int]) -> str:
    """Return the counts of rows of each kind: `1 session, 2 checkpoint values`."""
    kinds = {kind.replace("_", " ").removesuffix("s"): count for kind, count in counts.items()}
    return ", ".join(many(count, kind) for kind, count in kinds.items() if count)


def time_text(moment: datetime | None) -> str:
    """Return a time for a table, in UTC."""
    return "-" if moment is None else f"{moment:%Y-%m-%d %H:%M}"


def printable(text: str) -> str:
    """Return stored text as a terminal can show it: control characters are `?`.

    So are the marks that reverse a line; other spaces and joiners belong to the text.
    """
    return "".join(one if one.isprintable() or _is_harmless(one) else "?" for one in text)


def _is_harmless(one: str) -> bool:
    """Return whether a character that Python does not call printable may be printed."""
    return one in _JOINERS or category(one) == "Zs"


def printable_lines(text: str) -> str:
    """Return stored text as a terminal can show it, its lines kept."""
    return "\n".join(map(printable, text.expandtabs(4).split("\n")))


def on_one_line(text: str) -> str:
    """Return stored text as a terminal can show it, on one line."""
    return printable(" ".join(text.split()))


def shown_name(session: str) -> str:
    """Return the id of a session as it is printed; that of a sub-graph can be typed in."""
    return printable(session.replace(NAMESPACE_SEPARATOR, _TYPED_SEPARATOR))


def typed_name(session: str | None) -> str | None:
    """Return the id of a session that a user has typed."""
    return session and session.replace(_TYPED_SEPARATOR, NAMESPACE_SEPARATOR)

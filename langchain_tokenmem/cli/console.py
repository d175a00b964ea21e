"""Options, progress bar and error line that the commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from langchain_tokenmem.errors import ConfigurationError

AllowedTypes = Annotated[
    list[str] | None,
    typer.Option("--allow", help="Type that the state may hold, as module:Class."),
]

KeyEnv = Annotated[str | None, typer.Option(help="Environment variable with the key of the rows.")]


Force = Annotated[bool, typer.Option("--force", help="Write over a file that is there.")]


def check_output(file: Path, *, force: bool, store: Path | None = None) -> None:
    """Raise if a file must not be written.

    Args:
        file: The file.
        force: Whether it may be there already.
        store: A SQLite file that is read meanwhile: it is never written over.

    Raises:
        ConfigurationError: When it is there.
    """
    if not file.exists():
        return
    if store is not None and file.samefile(store):
        raise ConfigurationError(f"{file} is the store itself; write to another file.")
    if not force:
        raise ConfigurationError(f"{file} is there already; --force writes over it.")


@contextmanager
def exit_on_error(command: str, *errors: type[Exception]) -> Iterator[None]:
    """Print an error of these types in one line, and leave with 2."""
    try:
        yield
    except errors as error:
        text = f"tokenmem {command}: {error}"
        Console(stderr=True).print(text, style="red", markup=False)
        raise typer.Exit(2) from None


def printable(text: str) -> str:
    """Return stored text as a terminal can show it."""
    return "".join(one if one.isprintable() else "?" for one in text)


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar; what it gives is called with a description, steps done, and steps in all."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), transient=True) as progress:
        task = progress.add_task("")

        def show(description: str, done: int, total: int) -> None:
            progress.update(task, description=description[:40], completed=done, total=total)

        yield show

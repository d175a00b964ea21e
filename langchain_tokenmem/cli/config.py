"""Command `tokenmem config`: the settings in force, with the place of each, or an example file."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from langchain_tokenmem.cli.console import exit_on_error
from langchain_tokenmem.errors import TokenMemoryError


@exit_on_error("config", TokenMemoryError)
def config(
    *,
    example: Annotated[
        bool, typer.Option("--example", help="Print a commented file of all settings, in YAML.")
    ] = False,
    given: Annotated[bool, typer.Option("--given", help="Leave out what has its default.")] = False,
) -> None:
    """Print the settings in force and where each comes from; passwords and keys are hidden.

    They come from the environment (`TOKENMEM_*`) and a file (`tokenmem.yaml`, `tokenmem.toml`, or
    the one that `TOKENMEM_CONFIG` names).
    """
    from langchain_tokenmem.settings.reference import (  # noqa: PLC0415  # not for other commands
        example_file,
        in_force,
    )
    from langchain_tokenmem.settings.token_memory_settings import (  # noqa: PLC0415
        TokenMemorySettings,
    )

    if example:
        sys.stdout.write(example_file())
        return
    table = Table("setting", "value", "from")
    for row in in_force(TokenMemorySettings()):
        if not (given and row[2] == "default"):
            table.add_row(*map(escape, row))
    Console().print(table)

"""Options and arguments that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

from langchain_tokenmem.cli.terminal import typed_name

Allow = Annotated[
    list[str] | None,
    typer.Option("--allow", help="Type that the state may hold, as module:Class."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]
Store = Annotated[str, typer.Argument(metavar="STORE", help="URL of the store, or its file.")]
User = Annotated[str | None, typer.Option(help="Only sessions of this user.")]
Source = Annotated[
    str,
    typer.Argument(
        metavar="STORE",
        help="URL or SQLite file of a store or of a LangGraph checkpointer, an export of "
        "`tokenmem export`, or a recording.",
    ),
]
SessionName = Annotated[
    str,
    typer.Argument(metavar="SESSION", help="Id of the session or thread.", callback=typed_name),
]
Full = Annotated[bool, typer.Option("--full", help="Print whole messages.")]
Window = Annotated[
    int | None,
    typer.Option(
        "--window",
        "-w",
        min=256,  # MIN_CONTEXT_WINDOW; importing it would take a second
        help="Context window in tokens, if neither the store nor the model gives it.",
    ),
]

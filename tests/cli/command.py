"""The command `tokenmem` as a shell runs it."""

from __future__ import annotations

from typing import Any

from typer.testing import CliRunner

from langchain_tokenmem.cli.app import app

# TOKENMEM_DATA is where the recordings of integration_tests are; no setting.
_ENVIRONMENT = {"COLUMNS": "200", "NO_COLOR": "1", "TOKENMEM_DATA": None}


def ran(*args: Any, code: int = 0, answer: str | None = None, **environment: str) -> str:
    """Run a command, check what it leaves with, and return all that it prints.

    Args:
        args: Words of the command.
        code: What it has to leave with.
        answer: What is typed in.
        environment: Variables.
    """
    runner = CliRunner(env={**_ENVIRONMENT, **environment})
    done = runner.invoke(app, [*map(str, args)], input=answer)
    assert done.exit_code == code, done.output
    return done.output

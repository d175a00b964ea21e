"""The command `tokenmem` as a shell runs it."""

from functools import cache
from typing import Any

import typer.testing
from typer.main import get_command
from typer.testing import CliRunner

from langchain_tokenmem.cli.app import app

# Typer's runner builds all commands for each call, which is more work than most of them do.
typer.testing._get_command = cache(get_command)

# TOKENMEM_DATA is where the recordings of integration_tests are; no setting.
_ENVIRONMENT = {"COLUMNS": "200", "NO_COLOR": "1", "TOKENMEM_DATA": None}


def invoked(*words: Any, answer: str | None = None, **environment: str) -> Any:
    """Run a command as a shell does, and return typer's result."""
    runner = CliRunner(env={**_ENVIRONMENT, **environment})
    return runner.invoke(app, [*map(str, words)], input=answer)


def ran(*args: Any, code: int = 0, answer: str | None = None, **environment: str) -> str:
    """Run a command, check what it leaves with, and return all that it prints.

    Args:
        args: Words of the command.
        code: What it has to leave with.
        answer: What is typed in.
        environment: Variables.
    """
    done = invoked(*args, answer=answer, **environment)
    assert done.exit_code == code, done.output
    return done.output

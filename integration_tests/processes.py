"""Processes of their own for the workers of this folder."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
import threading
from multiprocessing.connection import Connection
from pathlib import Path

import langchain_tokenmem

PACKAGE = Path(langchain_tokenmem.__file__).parents[1]
"""The package that this process uses, installed or not; the workers use it, too."""


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a script in its own interpreter."""
    return subprocess.Popen(
        [sys.executable, script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(PACKAGE)},
    )


_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["langchain_tokenmem.adapters.agents", "tests.contract.chats"])


class Fork:
    """A script in a fork of a process that has imported the package and has no threads.

    A new interpreter spends three seconds of a processor on its imports, and some tests kill forty
    of them. The attributes are those of `subprocess.Popen`.
    """

    def __init__(self, script: str, *arguments: object) -> None:
        ends = [_FORKS.Pipe(duplex=False) for _ in range(2)]
        given = [script, *map(str, arguments)]
        self._process = _FORKS.Process(
            target=_run, args=(given, *(w for _, w in ends)), daemon=True
        )
        self._process.start()
        for _, writer in ends:
            writer.close()
        self.stdout, self.stderr = (os.fdopen(os.dup(reader.fileno())) for reader, _ in ends)
        for reader, _ in ends:
            reader.close()

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def kill(self) -> None:
        self._process.kill()

    def communicate(self, timeout: float) -> tuple[str, str]:
        """Return what is left to read, after the end; what takes longer is killed."""
        limit = threading.Timer(timeout, self.kill)
        limit.start()
        with self.stdout, self.stderr:
            said = self.stdout.read(), self.stderr.read()
        self._process.join()
        limit.cancel()
        return said


def _run(given: list[str], out: Connection, errors: Connection) -> None:
    for number, end in enumerate((out, errors), 1):
        os.dup2(end.fileno(), number)
        end.close()
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
    sys.argv = given
    sys.path.insert(0, str(Path(given[0]).parent))
    runpy.run_path(given[0], run_name="__main__")

"""Functions in processes of their own: tests kill some of them.

A function is found again by its name, so it is one of a module; what it prints is read by the test.
"""

import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection


def start(work: Callable[..., object], *given: str | float) -> subprocess.Popen[str]:
    """Call a function in a new interpreter, which has standard input and ends as any other."""
    called = f"from {work.__module__} import {work.__name__} as work; work(*{given!r})"
    return subprocess.Popen(
        [sys.executable, "-c", called],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["integration_tests.preloaded"])


class Fork:
    """Calls a function in a fork of a process that has imported the package and has no threads.

    A new interpreter spends three seconds of a processor on its imports, and some tests kill a
    hundred of them. The attributes are those of `subprocess.Popen`.
    """

    def __init__(self, work: Callable[..., object], *given: object) -> None:
        ends = [_FORKS.Pipe(duplex=False) for _ in range(2)]
        self._process = _FORKS.Process(
            target=_run, args=(work, given, *(w for _, w in ends)), daemon=True
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

    def killed(self, *heard: str) -> list[str]:
        """Kill it; return the lines that it has printed, the heard ones first, without a torn one.

        Raises:
            AssertionError: When a line was heard that it did not print: it had died before.
        """
        self.kill()
        rest, errors = self.communicate(timeout=60)
        assert "" not in heard, f"it died before it was killed: {errors}"
        lines = [*heard, *rest.splitlines(keepends=True)]
        return [line[:-1] for line in lines if line.endswith("\n")]


def finished(workers: Iterable["Fork | subprocess.Popen[str]"]) -> list[list[str]]:
    """Wait for processes, each of which must end well, and return the lines that each printed."""
    ended = [(worker, *worker.communicate(timeout=300)) for worker in workers]
    for worker, _, errors in ended:
        assert worker.returncode == 0, errors
    return [said.splitlines() for _, said, _ in ended]


def _run(
    work: Callable[..., object], given: tuple[object, ...], out: Connection, errors: Connection
) -> None:
    for number, end in enumerate((out, errors), 1):
        os.dup2(end.fileno(), number)
        end.close()
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
    work(*given)

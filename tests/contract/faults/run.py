"""Plant faults in a copy of the package, one at a time, and see which contract test fails.

Each `NN_short_name.patch` beside this file changes a line. Its first line says which promise it
breaks, and names the file of contract tests that is tried first. The exit code is 1 where fewer
than 36 faults are caught, where a patch does not apply, or where the tests fail without any fault.

Run: python tests/contract/faults/run.py [--jobs N] [NAME ...], with parts of the names of patches.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

FAULTS = Path(__file__).parent
ROOT = FAULTS.parents[2]
CONTRACT = "tests/contract"
LEAST_CAUGHT = 36
LIMIT_S = 1_800
"""Seconds that the tests may take under one fault."""

PROMISE = re.compile(r"# .+ \((?P<file>test_\w+\.py)\)")
FAILED = re.compile(r"^(?:FAILED|ERROR) \S*?/(test_\w+\.py::\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Result:
    """What the contract tests said of one fault.

    Attributes:
        name: Name of the patch.
        caught_by: The first test that failed; empty for none.
        trouble: Why the fault could not be tried; empty where it was.
        seconds: Time that it took.
    """

    name: str
    caught_by: str
    trouble: str
    seconds: float


def try_fault(patch: Path | None) -> Result:
    """Run the contract tests on a copy of the package with a fault; None for none."""
    started = time.monotonic()
    caught_by = trouble = ""
    with tempfile.TemporaryDirectory(prefix="tokenmem-fault-") as name:
        folder = Path(name)
        for part in ("langchain_tokenmem", "tests", "docs", "examples"):
            shutil.copytree(ROOT / part, folder / part)
        shutil.copy(ROOT / "pyproject.toml", folder)
        chosen = [[CONTRACT]]
        if patch is not None:
            found = PROMISE.match(patch.read_text(encoding="utf-8"))
            if found is None:
                trouble = "its first line is not: # the promise (test_file.py)"
            else:
                first = f"{CONTRACT}/{found['file']}"
                trouble = applied(patch, folder)
                chosen = [[first], [CONTRACT, f"--ignore={first}"]]
        for arguments in chosen:
            if not (caught_by or trouble):
                caught_by, trouble = first_failure(folder, arguments)
    seconds = time.monotonic() - started
    return Result(patch.stem if patch else "(no fault)", caught_by, trouble, seconds)


def applied(patch: Path, folder: Path) -> str:
    """Apply a patch, and return why it does not apply; empty where it does."""
    command = ["git", "apply", "-C1", str(patch)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return f"does not apply: {done.stderr.strip()}" if done.returncode else ""


def first_failure(folder: Path, arguments: Sequence[str]) -> tuple[str, str]:
    """Run tests, and return the first one that failed, and why they could not be run."""
    command = [sys.executable, "-m", "pytest", *arguments, "-x", "-q", "-n0"]
    environment = {**os.environ, "PYTHONPATH": str(folder), "HYPOTHESIS_PROFILE": "ci"}
    try:
        done = subprocess.run(
            [*command, "-p", "no:cacheprovider"],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        return f"no end within {LIMIT_S} s", ""
    found = FAILED.search(done.stdout)
    if done.returncode == 1 and found:
        return found[1], ""
    if done.returncode:
        return "", f"the tests do not run: {done.stdout[-300:]} {done.stderr[-300:]}"
    return "", ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="parts of names of patches; default: all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    patches = sorted(FAULTS.glob("*.patch"))
    chosen = [p for p in patches if not asked.names or any(n in p.stem for n in asked.names)]
    with ThreadPoolExecutor(asked.jobs) as pool:
        results = []
        for result in pool.map(try_fault, [*chosen, None]):
            results.append(result)
            said = result.trouble or result.caught_by or "NOT CAUGHT"
            print(f"{result.name:34} {result.seconds:5.0f} s  {said}", flush=True)
    *faults, plain = results
    caught = [result for result in faults if result.caught_by]
    print(f"{len(caught)} of {len(faults)} faults are caught.")
    least = len(faults) if asked.names else LEAST_CAUGHT
    is_bad = len(caught) < least or any(result.trouble for result in faults)
    sys.exit(is_bad or bool(plain.caught_by or plain.trouble))


if __name__ == "__main__":
    main()

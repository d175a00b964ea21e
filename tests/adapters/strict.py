"""A process that reads its checkpoints under strict msgpack, where every warning is an error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = str(Path(__file__).parents[2])
CHECK = """
from langgraph.checkpoint.serde import _msgpack
assert _msgpack.STRICT_MSGPACK_ENABLED
"""


def run_strictly(folder: Path, program: str) -> None:
    file = folder / "strict.py"
    file.write_text(CHECK + program, encoding="utf-8")
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-W", "error", str(file)],
        env={"LANGGRAPH_STRICT_MSGPACK": "true", "PYTHONPATH": ROOT, "PATH": ""},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr

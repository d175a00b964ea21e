"""Cost of `import langchain_tokenmem`, against the part of langchain-core that it is made of.

Run: python benchmarks/import_weight.py [--times 15]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

OURS = "import langchain_tokenmem"
PEER = "import langchain_core.messages, langchain_core.chat_history"
EVERYTHING = "from langchain_tokenmem import *"


def seconds(code: str) -> float:
    """Return how long a fresh interpreter takes for `code`."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - started


def main() -> None:
    """Print the ratio of medians, the bare interpreter taken off."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=15)
    times = parser.parse_args().times
    codes = {"bare": "pass", "ours": OURS, "peer": PEER, "all names": EVERYTHING}
    taken: dict[str, list[float]] = {name: [] for name in codes}
    for _ in range(times):
        for name, code in codes.items():
            taken[name].append(seconds(code))
    median = {name: statistics.median(values) for name, values in taken.items()}
    for name, code in codes.items():
        print(f"{median[name] * 1e3:8.1f} ms  {code}")
    ratio = (median["ours"] - median["bare"]) / (median["peer"] - median["bare"])
    print(f"ratio {ratio:.3f} (promised: at most 1.3)")


if __name__ == "__main__":
    main()

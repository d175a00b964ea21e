"""Facts that the running summary still holds after 10 and 50 folds, without a model.

Recordings of one source are joined to long runs. Into the beginning of each are planted: decisions
of the user, changed files, commands that failed, and a to-do list with open items. The run is
played call by call, as an application does. After 10 and after 50 folds it is counted what the next
request still holds: the port in a decision, the path of a file, a failed command with `failed`, an
open item.

Run: python benchmarks/summary_survival.py FILE... [--window 8000] [--join 400000] [--runs 4]
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from _price_recordings import joined, read_recordings
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.cli.measures import reference_counter, text_of
from langchain_tokenmem.cli.replay import lengths_at_calls
from langchain_tokenmem.tokens.counters import counter_for

FOLDS = (10, 50)
NAMES = ("ledger", "harbour", "invoice", "quota")
BEGINNING = 12
"""Messages of a run in front of the first thing that is planted."""

PROMISED = {10: 0.90, 50: 0.75}
"""Least share that is still there after so many folds."""


def planted() -> list[BaseMessage]:
    """Return what is planted, in the order of a conversation."""
    found: list[BaseMessage] = []
    items = [{"content": f"Write the {name} report", "status": "pending"} for name in NAMES]
    items.append({"content": "Read the wiki", "status": "completed"})
    found += _call("todos", "write_todos", {"todos": items}, "Updated the list.")
    for number, name in enumerate(NAMES):
        found.append(
            HumanMessage(
                f"We decided that the {name} service keeps port 84{number}1, because the old "
                f"firewall opens no other one. Please go on.",
                id=f"decided-{name}",
            )
        )
        found += _call(
            f"edit-{name}",
            "edit_file",
            {
                "path": f"src/{name}/service.py",
                "old": "port = 80\n" * 20,
                "new": "port = 84\n" * 20,
            },
            "The file was updated.",
        )
        found += _call(
            f"failed-{name}",
            "bash",
            {"command": f"make {name}-check"},
            f"make: *** [{name}-check] Error 2\n{name}: no rule to make target",
            status="error",
        )
    return found


def _call(
    key: str, name: str, args: dict[str, object], result: str, *, status: str = "success"
) -> list[BaseMessage]:
    call = {"name": name, "args": args, "id": f"call-{key}"}
    return [
        AIMessage("", tool_calls=[call], id=f"ask-{key}"),
        ToolMessage(result, tool_call_id=f"call-{key}", status=status, id=f"result-{key}"),
    ]


def found_in(text: str) -> Counter[str]:
    """Return how many facts of each kind a request holds."""
    lines = text.splitlines()
    found: Counter[str] = Counter()
    for number, name in enumerate(NAMES):
        found["decisions"] += f"84{number}1" in text
        found["changed files"] += f"src/{name}/service.py" in text
        found["failed commands"] += any(f"make {name}-check" in x and "failed" in x for x in lines)
        found["open to-dos"] += f"[ ] Write the {name} report" in text
    return found


def played(messages: Sequence[BaseMessage], window: int) -> Iterator[tuple[int, Counter[str]]]:
    """Yield how many facts are left, for each number of `FOLDS` that a run reaches."""
    history = [*messages[:BEGINNING], *planted(), *messages[BEGINNING:]]
    memory = TokenMemory(TokenBudget(window), counter=counter_for())
    state, left = None, [*FOLDS]
    for place in lengths_at_calls(history):
        state = memory.compact(history[:place], state)
        if left and state["totals"]["summaries"] >= left[0]:
            request = memory.view(history[:place], state).messages
            yield left.pop(0), found_in("\n".join(map(text_of, request)))
        if not left:
            return


def main() -> None:
    """Print the table; a broken promise ends with an error."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, help="JSON Lines, .gz too")
    parser.add_argument("--window", type=int, default=8_000, help="tokens")
    parser.add_argument("--join", type=int, default=400_000, help="tokens of a run")
    parser.add_argument("--runs", type=int, default=6, help="most runs")
    options = parser.parse_args()
    if not options.files:  # `make bench` names none
        print("Give files of recordings; none is part of this project.")
        return
    logging.disable(logging.WARNING)
    counter = reference_counter()
    recordings = [one for path in options.files for one in read_recordings(path)]
    runs = joined(recordings, options.join, counter)[: options.runs]
    total: dict[int, Counter[str]] = {}
    for run in runs:
        for folds, left in played(run.messages(), options.window):
            total.setdefault(folds, Counter()).update({**left, "runs": 1})
    broken = []
    for folds, left in total.items():
        most = left.pop("runs") * len(NAMES)
        share = sum(left.values()) / (4 * most)
        kinds = ", ".join(f"{kind} {count}/{most}" for kind, count in left.items())
        print(f"after {folds} folds, window {options.window:,}: {share:.0%} left ({kinds})")
        if share < PROMISED[folds]:
            broken.append(f"{share:.0%} after {folds} folds")
    if broken:
        raise SystemExit(f"broken: {'; '.join(broken)}")


if __name__ == "__main__":
    main()

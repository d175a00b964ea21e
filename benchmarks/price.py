"""Price and knowledge of requests: recorded agents played through this package and through others.

Before each recorded answer every system is asked for the request of that call, as an application
does it, with the state that it keeps. One summarizing model serves all: it cites the lines of its
prompt with the most literals. The definitions of all figures stand in `_price_measure.py` and in
`langchain_tokenmem.cli`.

The others come with `pip install --group bench`; what is not installed is left out, and said.

Run: python benchmarks/price.py FILE... [--windows 4000,8000] [--sample 20] [--json figures.json]
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from _price_citing import CitingModel
from _price_measure import Run, Tally
from _price_recordings import Recording, joined, read_recordings, sampled, with_gaps
from _price_systems import SYSTEMS, missing_package, with_fields

from langchain_tokenmem.cli.measures import MessageTexts, ReferenceCounter, reference_counter

BASELINE = "LangChain 80-30"
"""System whose price the others' are also given as a part of."""

MANY_RESENT, MOST_LISTED = 1.0, 10
"""Tokens sent again, as a share of the new ones, from which a run is listed; and how many are."""

LEFT_OUT = {"LangChain 80-30, system apart"}
"""Systems that are played only where they are named."""


@dataclass(frozen=True)
class Played:
    """A recording that was played through one system at one window.

    Attributes:
        window: Tokens of the window.
        system: Name of the system.
        source: Source of the recording.
        name: Its name.
        tally: The figures of all its calls.
        reasons: Tokens sent again, by the reason that the system names.
        seconds: Time that it took.
    """

    window: int
    system: str
    source: str
    name: str
    tally: Tally
    reasons: Counter[str]
    seconds: float


@cache
def counter() -> ReferenceCounter:
    """Return the counter of this process."""
    return reference_counter()


Task = tuple[Recording, Sequence[int], Sequence[str], int | None]


def play(task: Task) -> list[Played]:
    """Play one recording through every system at every window."""
    recording, windows, names, gaps = task
    logging.disable(logging.WARNING)  # what other systems warn of is counted
    warnings.simplefilter("ignore")
    messages, texts = recording.messages(), MessageTexts(counter())
    if gaps is not None:
        messages = with_gaps(messages, gaps)
    found = []
    for window in windows:
        for name in names:
            system = SYSTEMS[name] if name in SYSTEMS else with_fields(name)[1]
            started = time.perf_counter()
            model = CitingModel(counter=counter(), profile={"max_input_tokens": window})
            run = Run(texts, system(window, model), model, window)
            tally = Tally()
            for call in run.play(messages):
                tally.add(call)
            seconds = time.perf_counter() - started
            found.append(
                Played(window, name, recording.source, recording.name, tally, run.reasons, seconds)
            )
    return found


def _share(part: float, of: float) -> float | None:
    return part / of if of else None


def figures(tally: Tally) -> dict[str, float | None]:
    """Return the figures of a report from sums; None where nothing of the kind was seen."""
    return {
        "calls": tally.calls,
        "price": _share(tally.cost, tally.whole),
        "price_1024": _share(tally.cost_1024, tally.whole_1024),
        "price_blocks": _share(tally.cost_blocks, tally.whole_blocks),
        "coverage": _share(tally.covered, tally.covering),
        "far": _share(tally.far, tally.having_far),
        "bound": _share(tally.bound, tally.covering),
        "lift": _share(tally.lift, tally.having_far),
        "whole_results": _share(tally.whole_results, tally.with_results),
        "over": tally.over,
        "illegal": tally.illegal,
        "crashes": tally.crashes,
        "calls_per_change": _share(tally.calls, tally.changes),
        "summaries": tally.summaries,
        "resent": _share(tally.resent, tally.new_tokens),
        "mean_tokens": _share(tally.tokens, tally.calls - tally.crashes),
        "growth": _share(tally.new_tokens, tally.calls - tally.crashes),
        "whole": _share(tally.whole, tally.calls - tally.crashes),
    }


def pooled(played: Iterable[Played]) -> Tally:
    """Return the sums over runs."""
    total = Tally()
    for one in played:
        total.add(one.tally)
    return total


_COLUMNS = {
    "price": ("price", "{:.2f}", 1),
    "of_baseline": ("of LC", "{:.2f}", 1),
    "price_1024": ("1,024", "{:.2f}", 1),
    "price_blocks": ("blocks", "{:.2f}", 1),
    "coverage": ("cover", "{:.1f}", 100),
    "far": ("far", "{:.1f}", 100),
    "bound": ("bound", "{:.1f}", 100),
    "lift": ("lift", "{:.1f}", 100),
    "whole_results": ("fresh", "{:.1f}", 100),
    "over": ("over", "{:,}", 1),
    "illegal": ("illegal", "{:,}", 1),
    "crashes": ("crashes", "{:,}", 1),
    "calls_per_change": ("change every", "{:.1f}", 1),
    "summaries": ("summaries", "{:,}", 1),
    "resent": ("resent", "{:.2f}", 1),
    "mean_tokens": ("tokens", "{:,.0f}", 1),
}
"""Columns of a table: heading, form and factor by the figure's name."""


def rows_of(played: Sequence[Played], names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the figures of each system, over runs of one window."""
    found: list[dict[str, Any]] = []
    for name in names:
        own = [one for one in played if one.system == name]
        found.append({"system": name, "runs": len(own), **figures(pooled(own))})
    base = next((row["price"] for row in found if row["system"] == BASELINE), None)
    for row in found:
        row["of_baseline"] = row["price"] / base if base and row["price"] is not None else None
    return found


def print_table(title: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print one table."""
    width = max(len(row["system"]) for row in rows)
    print(f"\n{title}: {rows[0]['runs']} runs, {rows[0]['calls']:,} calls")
    print(f"{'':{width}} " + " ".join(f"{head:>7}" for head, _, _ in _COLUMNS.values()))
    for row in rows:
        cells = []
        for name, (head, form, factor) in _COLUMNS.items():
            value = row[name]
            cells.append(
                f"{'-' if value is None else form.format(value * factor):>{max(7, len(head))}}"
            )
        print(f"{row['system']:{width}} " + " ".join(cells))


def print_resent(played: Iterable[Played]) -> None:
    """Print what this package sends a second time: the reasons, and the runs with the most."""
    by_system: dict[str, list[Played]] = {}
    for one in played:
        if one.reasons:
            by_system.setdefault(one.system, []).append(one)
    for system, own in by_system.items():
        reasons = sum((one.reasons for one in own), Counter[str]())
        print(f"\n{system}, tokens sent again: {_listed(reasons)}")
        shares = {one.name: _share(one.tally.resent, one.tally.new_tokens) or 0.0 for one in own}
        many = [one for one in own if shares[one.name] > MANY_RESENT]
        for one in sorted(many, key=lambda one: -shares[one.name])[:MOST_LISTED]:
            print(f"  {shares[one.name]:5.2f} of the new ones: {_listed(one.reasons)}; {one.name}")
        if len(many) > MOST_LISTED:
            print(f"  and {len(many) - MOST_LISTED} runs more above {MANY_RESENT}")


def _listed(reasons: Counter[str]) -> str:
    return ", ".join(f"{reason} {tokens:,}" for reason, tokens in reasons.most_common())


def report(played: Sequence[Played], names: Sequence[str], least: int) -> list[dict[str, Any]]:
    """Print all tables; return their rows."""
    found: list[dict[str, Any]] = []
    for window in sorted({one.window for one in played}):
        at = [one for one in played if one.window == window]
        sources = sorted({one.source for one in at})
        for source in ["all", *(sources if len(sources) > 1 else [])]:
            own = [one for one in at if source in {"all", one.source}]
            rows = rows_of(own, names)
            found += [{"window": window, "source": source, **row} for row in rows]
            if source == "all" or rows[0]["calls"] >= least:
                print_table(f"window {window:,}, {source}", rows)
        print_resent(at)
    return found


def chosen_systems(options: argparse.Namespace) -> list[str]:
    """Return the names of the systems to play; say which ones are left out."""
    asked = options.systems.split(";") if options.systems else None
    names = []
    for name in asked or [name for name in SYSTEMS if name not in LEFT_OUT]:
        if name not in SYSTEMS:
            raise SystemExit(f"{name!r} is not among {'; '.join(SYSTEMS)}")
        if package := missing_package(name):
            print(f"{name} is left out: {package} is not installed (pip install --group bench)")
        else:
            names.append(name)
    return [*names, *options.ours]


def main() -> None:
    """Play the recordings and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, help="JSON Lines, .gz too")
    parser.add_argument("--windows", default="4000,8000,16000,32000", help="tokens, by commas")
    parser.add_argument("--systems", help="names by semicolons; default: all")
    parser.add_argument(
        "--ours", action="append", default=[], help="settings, as target=.3,mode=code,model"
    )
    parser.add_argument("--sample", type=int, help="recordings of each file; default: all")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--join", type=int, help="join recordings of a source to so many tokens")
    parser.add_argument("--gaps", type=int, help="seed of pauses after which nothing is cached")
    parser.add_argument("--least", type=int, default=200, help="calls of a source with a table")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path, help="file for the figures")
    options = parser.parse_args()
    if not options.files:  # `make bench` names none
        print("Give files of recordings; none is part of this project.")
        return
    names = chosen_systems(options)
    windows = [int(one) for one in options.windows.split(",")]
    recordings: list[Recording] = []
    for path in options.files:
        drawn = sampled(read_recordings(path), options.sample, options.seed)
        recordings += joined(drawn, options.join, counter()) if options.join else drawn
    recordings.sort(key=lambda one: -one.size)
    tasks: list[Task] = [(recording, windows, names, options.gaps) for recording in recordings]
    started = time.perf_counter()
    if options.workers > 1:
        with ProcessPoolExecutor(options.workers) as pool:
            played = [one for found in pool.map(play, tasks) for one in found]
    else:
        played = [one for task in tasks for one in play(task)]
    rows = report(played, names, options.least)
    print(f"\n{time.perf_counter() - started:.0f} s")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()

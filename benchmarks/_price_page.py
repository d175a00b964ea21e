"""Tables and charts of `docs/price.md` and `docs/budget.md`, from the figures of `price.py --json`.

The tables take the place of what stands between two marks of the page; the charts are SVG files
beside it. Where two files have a window and a system, the later one counts: after a change of this
package only its own systems need to be played again.

Run: python benchmarks/_price_page.py price FIGURES.json --state COMMIT
     python benchmarks/_price_page.py budget AT_8K.json AT_32K.json AT_128K.json --state COMMIT
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"

Row = dict[str, Any]

_MARKED = "<!-- figures of {name} -->\n(.*?)<!-- end of figures -->"
_SETTINGS = re.compile(r"target=([\d.]+),compact_at=([\d.]+),summarize_at=[\d.]+")
_DEAREST = 1.3
"""Price at the right edge of a chart; dearer systems stand there, too."""

COLUMNS = {
    "price": ("price", "{:.2f}", 1),
    "coverage": ("coverage", "{:.1f} %", 100),
    "far": ("far", "{:.1f} %", 100),
    "bound": ("bound", "{:.1f} %", 100),
    "whole_results": ("whole fresh", "{:.1f} %", 100),
    "over": ("over", "{:,}", 1),
    "illegal": ("illegal", "{:,}", 1),
    "crashes": ("crashes", "{:,}", 1),
    "summaries": ("summaries", "{:,}", 1),
}
"""Columns of a table: heading, form and factor by the figure's name. `--json` has more of them."""


def cell(row: Row, name: str) -> str:
    """Return one figure as a table shows it."""
    _, form, factor = COLUMNS[name]
    return "-" if row[name] is None else form.format(row[name] * factor)


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table, its first column to the left."""
    rows = [head, ["---", *["---:"] * (len(head) - 1)], *lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def price_tables(rows: Sequence[Row]) -> str:
    """Return one table for each window, a row for each system."""
    found = []
    for window in sorted({row["window"] for row in rows}):
        own = [row for row in rows if row["window"] == window]
        lines = [[row["system"], *(cell(row, name) for name in COLUMNS)] for row in own]
        found.append(
            table([f"window {window // 1000}k", *(one[0] for one in COLUMNS.values())], lines)
        )
    return "\n".join(found)


def settings_of(row: Row) -> tuple[float, float] | None:
    """Return `target` and `compact_at` of a row, where its name says them.

    Example:
        >>> settings_of({"system": "ours (target=.3,compact_at=.7,summarize_at=.7)"})
        (0.3, 0.7)
    """
    found = _SETTINGS.search(row["system"])
    return (float(found[1]), float(found[2])) if found else None


def by_settings(rows: Iterable[Row]) -> dict[tuple[float, float], Row]:
    """Return the rows that name their settings, by these."""
    return {own: row for row in rows if (own := settings_of(row)) is not None}


def budget_tables(rows: Sequence[Row]) -> str:
    """Return one table for each window: price, coverage and far by target and high watermark."""
    found = []
    for window in sorted({row["window"] for row in rows}):
        own = by_settings(row for row in rows if row["window"] == window)
        highs = sorted({high for _, high in own})
        lines = [
            [f"`target` {low:.2f}", *(_knowing(own[low, high]) for high in highs)]
            for low in sorted({low for low, _ in own})
        ]
        runs = next(iter(own.values()))
        title = f"window {window // 1000}k: {runs['runs']} runs, {runs['calls']} calls"
        found.append(table([title, *(f"from {high:.2f}" for high in highs)], lines))
    return "\n".join(found)


def _knowing(row: Row) -> str:
    return " · ".join(cell(row, name).removesuffix(" %") for name in ("price", "coverage", "far"))


def replace_figures(page: str, name: str, figures: str) -> str:
    """Return a page with other figures between the marks.

    Raises:
        ValueError: When the page has no such marks.
    """
    found = re.search(_MARKED.format(name=name), page, re.DOTALL)
    if not found:
        raise ValueError(f"The page has no mark for the figures of {name}.")
    return page[: found.start(1)] + figures + page[found.end(1) :]


def _pyplot() -> Any:
    import matplotlib as mpl  # noqa: PLC0415  # not installed everywhere

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "price", "svg.fonttype": "none", "font.size": 8})
    return importlib.import_module("matplotlib.pyplot")


def _save(pyplot: Any, figure: Any, name: str) -> None:
    figure.tight_layout()
    path = DOCS / name
    figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")
    path.write_text(re.sub(r"[ \t]+$", "", path.read_text("utf-8"), flags=re.MULTILINE), "utf-8")
    pyplot.close(figure)


def price_chart(rows: Sequence[Row]) -> None:
    """Draw far coverage over price, one field for each window."""
    pyplot = _pyplot()
    windows = sorted({row["window"] for row in rows})
    size = (2.6 * len(windows), 3)
    figure, [fields] = pyplot.subplots(1, len(windows), figsize=size, sharey=True, squeeze=False)
    for window, place in zip(windows, fields, strict=True):
        for row, mark in zip([r for r in rows if r["window"] == window], "osD^v<>X", strict=False):
            at = min(row["price"], _DEAREST), 100 * row["far"]
            place.scatter(*at, marker=mark, s=28, label=row["system"], clip_on=False)
        place.set(title=f"window {window:,}", xlabel="price", xlim=(0, _DEAREST), ylim=(0, 100))
        place.grid(alpha=0.3)
    fields[0].set_ylabel("far coverage, %")
    handles, labels = fields[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=4, bbox_to_anchor=(0.5, -0.16))
    _save(pyplot, figure, "price.svg")


def budget_chart(rows: Sequence[Row]) -> None:
    """Draw price and far coverage over `target`, a line for each high watermark."""
    pyplot = _pyplot()
    windows = sorted({row["window"] for row in rows})
    size = (3 * len(windows), 4.4)
    figure, grid = pyplot.subplots(2, len(windows), figsize=size, sharex=True, squeeze=False)
    for window, column in zip(windows, grid.T, strict=True):
        own = by_settings(row for row in rows if row["window"] == window)
        for high in sorted({high for _, high in own}):
            lows = sorted(low for low, top in own if top == high)
            for place, name, factor in zip(column, ("price", "far"), (1, 100), strict=True):
                values = [factor * own[low, high][name] for low in lows]
                place.plot(lows, values, marker="o", ms=3, label=f"from {high}")
        column[0].set_title(f"window {window:,}")
        column[1].set_xlabel("target")
        for place in column:
            place.grid(alpha=0.3)
    grid[0][0].set_ylabel("price")
    grid[1][0].set_ylabel("far coverage, %")
    grid[0][0].legend()
    _save(pyplot, figure, "budget.svg")


def main() -> None:
    """Write tables and chart of one page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", choices=["price", "budget"])
    parser.add_argument("figures", nargs="+", type=Path, help="files of price.py --json")
    parser.add_argument("--state", required=True, help="commit that was measured")
    options = parser.parse_args()
    read = [row for path in options.figures for row in json.loads(path.read_text("utf-8"))]
    newest = {(row["window"], row["system"]): row for row in read if row["source"] == "all"}
    rows = list(newest.values())
    name, path = options.page, DOCS / f"{options.page}.md"
    if name == "price":
        price_chart(rows)
        runs = f"{rows[0]['runs']} runs with {rows[0]['calls']:,} calls"
        parts = [f"{runs}, measured at commit `{options.state}`:", price_tables(rows)]
    else:
        budget_chart(rows)
        heading = "Price · coverage in % · far coverage in %, measured at commit"
        parts = [f"{heading} `{options.state}`:", budget_tables(rows)]
    figures = "\n" + "\n".join(f"{part.rstrip()}\n" for part in parts) + "\n"
    path.write_text(replace_figures(path.read_text("utf-8"), name, figures), "utf-8")


if __name__ == "__main__":
    main()

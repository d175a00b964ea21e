"""Tables of docs/ that are written from figures of `benchmarks/price.py`."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import _price_page as page
from _price_measure import Tally
from price import figures

DOCS = Path(__file__).parents[2] / "docs"


def row(system, **own):
    tally = Tally(calls=2, cost=3.0, whole=6.0, changes=1, having_far=2, far=1.0, new_tokens=1_000)
    return {"window": 8_000, "source": "all", "system": system, "runs": 1, **figures(tally), **own}


@pytest.mark.parametrize("name", ["price", "budget"])
def test_the_pages_have_marks_and_charts(name):
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    assert page.replace_figures(text, name, "") != text
    assert f"({name}.svg)" in text
    assert (DOCS / f"{name}.svg").is_file()


def test_figures_are_read_from_files(tmp_path, monkeypatch):
    (tmp_path / "price.md").write_text("<!-- figures of price -->\n<!-- end of figures -->")
    given = tmp_path / "figures.json"
    given.write_text(json.dumps([row("ours"), row("apart", source="a")]))
    older = tmp_path / "older.json"
    older.write_text(json.dumps([row("ours", price=9.0), row("others", price=0.7)]))
    monkeypatch.setattr(page, "DOCS", tmp_path)
    monkeypatch.setattr(page, "price_chart", lambda rows: None)
    monkeypatch.setattr(sys, "argv", ["page", "price", str(older), str(given), "--state", "abc"])
    page.main()
    text = (tmp_path / "price.md").read_text()
    assert "1 runs with 2 calls, measured at commit `abc`:" in text
    assert "| ours | 0.50 |" in text
    assert "| others | 0.70 |" in text
    assert "9.00" not in text
    assert "apart" not in text

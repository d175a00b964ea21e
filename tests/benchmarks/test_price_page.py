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


def setting(target, high, **own):
    return row(f"ours (target={target},compact_at={high},summarize_at={high})", **own)


def test_a_price_table_has_a_row_for_each_system():
    made = page.price_tables([row("ours"), row("others", price=None)])
    head, _, ours, others = made.strip().split("\n")
    assert head.startswith("| window 8k | price |")
    assert ours.startswith("| ours | 0.50 |")
    assert others.startswith("| others | - |")
    assert len({line.count("|") for line in (head, ours, others)}) == 1


def test_a_budget_table_is_by_target_and_high_watermark():
    rows = [setting(low, high, price=low * high) for low in (0.3, 0.4) for high in (0.7, 0.8)]
    made = page.budget_tables([row("ours"), *rows]).strip().split("\n")
    assert made[0] == "| window 8k: 1 runs, 2 calls | from 0.70 | from 0.80 |"
    assert made[2] == "| `target` 0.30 | 0.21 · - · 50.0 | 0.24 · - · 50.0 |"
    assert len(made) == 4


def test_the_formula_is_the_one_of_the_page():
    assert page.price_by_formula(500, 3_200, 6_400, 1_200) == pytest.approx(
        500 + 0.1 * 4_800 + 0.9 * 2_000 * 500 / 3_200
    )
    # g = 500, a change every 2 calls sends 0.2 x 500 x 2 tokens again
    rows = [setting(0.4, 0.8, resent=0.2, growth=500.0, whole=2_000.0, mean_tokens=100.0)]
    [*_, line] = page.formula_table(rows, 0.4, 0.8).strip().split("\n")
    expected = (500 + 480 + 0.9 * 200 * 500 / 3_200) / 2_000
    best = (3_200 + (18 * 500 * 200) ** 0.5) / 8_000
    assert line == f"| 8k | 500 | 6.4 | 2.0 | 200 | 100 | {expected:.2f} | 0.50 | {best:.2f} |"


def test_the_best_high_watermark_is_the_cheapest():
    best = page.best_high(500, 3_200, 1_200)
    prices = [page.price_by_formula(500, 3_200, high, 1_200) for high in range(3_300, 20_000, 10)]
    assert page.price_by_formula(500, 3_200, best, 1_200) == pytest.approx(min(prices), rel=1e-4)


def test_figures_take_the_place_between_their_marks():
    text = "a\n<!-- figures of price -->\nold\n<!-- end of figures -->\nb"
    assert page.replace_figures(text, "price", "new\n") == text.replace("old", "new")
    with pytest.raises(ValueError, match="budget"):
        page.replace_figures(text, "budget", "new")


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

"""The page on storage: its queries give what it shows, and it explains every table and column."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from langchain_tokenmem.storage.schema_versions import SCHEMA

PAGE = (Path(__file__).parents[3] / "docs" / "storage.md").read_text(encoding="utf-8")
TABLES = PAGE[PAGE.index("## The tables") : PAGE.index("## Debug a thread")]


def test_the_queries_give_what_the_page_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"^```python\n(.*?)^```", TABLES, re.MULTILINE | re.DOTALL)
    exec(compile(code, "storage.md", "exec"), {})  # noqa: S102
    examples = re.findall(r"^```sql\n(.*?)^```\n```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(examples) == PAGE.count("```sql") == 6
    raw = sqlite3.connect("example.db")
    for query, shown in examples:
        rows = raw.execute(query).fetchall()
        lines = ["|".join("" if value is None else str(value) for value in row) for row in rows]
        assert lines == shown.splitlines(), query
    raw.close()


@pytest.mark.parametrize("table", SCHEMA.metadata.tables.values(), ids=lambda table: table.name)
def test_the_page_explains_every_table_and_column(table):
    start = TABLES.index(f"| `{table.name}` |")
    section = re.split(r"\n\n|\n\| `tokenmem_", TABLES[start:])[0]
    for column in table.columns:
        if column.name not in {"checksum", "seal"}:
            assert re.search(rf"\b{column.name}\b", section), column.name

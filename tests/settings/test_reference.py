"""The table of the docs, the example file and `tokenmem config` are made from the settings."""

import re
from pathlib import Path

import pytest

from langchain_tokenmem import TokenMemorySettings
from langchain_tokenmem.settings.sources import settings_in
from langchain_tokenmem.settings.token_memory_settings import _text, example_file, in_force
from langchain_tokenmem.storage.database_url import shown_url
from tests.cli.command import ran

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
TABLE = re.compile(r"(<!-- begin of the table.*?-->\n).*?(<!-- end of the table -->)", re.DOTALL)


def settings_table():
    rows = [
        f"| `{one.name}` | {'none' if one.default is None else f'`{_text(one.default)}`'} "
        f"| {one.field.description} |"
        for one in settings_in(TokenMemorySettings)
    ]
    return "\n".join(["| setting | default | meaning |", "|---|---|---|", *rows])


def with_table(page):
    return TABLE.sub(lambda found: f"{found[1]}\n{settings_table()}\n\n{found[2]}", page)


def test_the_table_of_the_docs_is_that_of_the_settings():
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page) == page, "PAGE.write_text(with_table(page)) writes it anew"


@pytest.mark.slow
@pytest.mark.parametrize("is_given", [False, True])
def test_the_example_file_loads_as_it_is_and_with_every_setting_given(is_given, tmp_path):
    text = ran("config", "--example")
    assert text == example_file()
    if is_given:
        lines = text.splitlines()[3:]
        text = "\n".join(line.removeprefix("# ") for line in lines)
    (tmp_path / "tokenmem.yaml").write_text(text, encoding="utf-8")
    settings = TokenMemorySettings()
    places = settings.places()
    every = [one.path for one in settings_in(TokenMemorySettings)]
    given = [any(place[: len(path)] == path for place in places) for path in every]
    assert all(given) is any(given) is is_given


def test_config_prints_what_is_in_force_and_where_it_comes_from(tmp_path, monkeypatch):
    (tmp_path / "tokenmem.yaml").write_text("# one\nmax_wait_s: 3\n", encoding="utf-8")
    monkeypatch.setenv("TOKENMEM_MODE", "code")
    rows = in_force(TokenMemorySettings())
    for row in (
        ("max_wait_s", "3.0", "tokenmem.yaml"),
        ("mode.name", "code", "variable TOKENMEM_MODE"),
        ("budget.target", "0.4", "default"),
        ("recall", "none", "default"),
    ):
        assert row in rows
    monkeypatch.setenv("TOKENMEM_STORE", "postgresql+psycopg://ann:hush@db/x?sslpassword=hush")
    monkeypatch.setenv("TOKENMEM_RECALL__CHROMA__HEADERS", '{"Authorization": "hush"}')
    printed = ran("config")
    for words in ("tokenmem.yaml", "budget.target", "ann:***@db"):
        assert words in printed
    assert "hush" not in printed
    assert "budget.target" not in ran("config", "--given")
    for url, shown in (
        ("memory.db", "memory.db"),
        ("postgresql://a:b@h/d?password=c", "postgresql://a:***@h/d?password=***"),
        ("postgresql://a:b@h:port/d", "***"),
    ):
        assert shown_url(url) == shown

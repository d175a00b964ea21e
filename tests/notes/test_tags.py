"""Tags that a content gives by itself."""

from __future__ import annotations

import pytest

from langchain_tokenmem.notes.note import tags_in


def test_paths_functions_and_packages_are_tags():
    assert tags_in("Edit /src/app/config.py: function parse_config in package main") == [
        "/src/app/config.py",
        "function parse_config",
        "package main",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "https://example.com/a/b.py",
        "see github.com/foo/bar.py and www.x.org/y/z.html",
        "on 2026/11/22, 22.11.2026 or 11/22/2026",
        "either/or, his/her/their, and/or, n/a, 24/7, TCP/IP, km/h",
        "The function works as the package arrived.",
        "a function that returns, a module of its own",
        "",
    ],
)
def test_addresses_dates_and_pairs_of_words_are_no_tags(text):
    assert tags_in(text) == []


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("run ./run.sh in src/app/main.rs", ["./run.sh", "src/app/main.rs"]),
        ("see C:\\Users\\me\\notes.txt", ["C:\\Users\\me\\notes.txt"]),
        ("requests.get() before def main", ["function main", "function requests.get"]),
        ("the module os.path", ["package os.path"]),
        ("the function `parse_config` twice: function parse_config", ["function parse_config"]),
    ],
)
def test_tags_of_other_forms(text, tags):
    assert tags_in(text) == tags


def test_a_long_line_is_read_to_its_end():
    assert tags_in("word " * 500 + "/src/end.py") == ["/src/end.py"]

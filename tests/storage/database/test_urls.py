"""URLs and paths of databases."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.storage.database import parsed

PASSWORDS = st.text(st.sampled_from("Zq9@:/%?#[] \\$"), min_size=1, max_size=12).map(
    "ZZ{}ZZ".format
)


@given(
    scheme=st.sampled_from(
        ["postgres", "postgresql+psycopg", "postgresql+no", "mysql", "redis", "x"]
    ),
    password=PASSWORDS,
    end=st.sampled_from(
        ["@host/db", "@host:12x/db", "@ho st", "", "@host:port:port/db", "@[::1/db"]
    ),
)
def test_the_error_for_a_bad_url_shows_no_part_of_the_password(scheme, password, end):
    error = refusal_of(f"{scheme}://user:{password}{end}")
    if error is not None:
        assert "ZZ" not in str(error)
        assert error.__cause__ is None
        assert error.__context__ is None  # a log of the whole chain shows nothing either


def refusal_of(url: str) -> ConfigurationError | None:
    try:
        parsed(url)
    except ConfigurationError as error:
        return error
    return None


@pytest.mark.parametrize("url", ["user:ZZtop@host/db", "://ZZtop@host"])
def test_a_url_without_its_scheme_shows_no_part_of_the_password(url):
    with pytest.raises(ConfigurationError) as caught:
        parsed(url)
    assert "ZZ" not in str(caught.value)


@pytest.mark.parametrize("password", ["ZZa@ZZb", "a:b@ZZb", "a@ZZb/c", "a@ZZb/ZZc", "a@ZZb?ZZc"])
def test_the_end_of_a_password_is_never_taken_for_a_host(password):
    with pytest.raises(ConfigurationError, match="%40") as caught:
        TranscriptStore(f"postgresql+psycopg://user:{password}@host/db")
    assert "ZZ" not in str(caught.value)


def test_the_error_for_a_bad_url_shows_the_lines_to_write():
    with pytest.raises(ConfigurationError, match=r'TranscriptStore\("memory\.db"\).*\+psycopg://'):
        TranscriptStore("postgres://user:x@host/db")


@pytest.mark.parametrize("name", ["memory.db", "my memory", "100%?#.db"])
@pytest.mark.parametrize("kind", [str, Path])
def test_a_path_is_taken_as_a_sqlite_file(tmp_path, monkeypatch, name, kind):
    monkeypatch.chdir(tmp_path)
    with TranscriptStore(kind(name)) as store:
        store.add("s1", [HumanMessage("hi")])
    assert (tmp_path / name).exists()


def test_a_windows_path_is_no_url():
    assert parsed("C:\\chats\\memory.db").database == "C:\\chats\\memory.db"


@pytest.mark.parametrize("url", [7, None, "", " ", ["sqlite://"]])
def test_what_is_neither_url_nor_path_is_told(url):
    with pytest.raises(ConfigurationError, match="TranscriptStore"):
        TranscriptStore(url)

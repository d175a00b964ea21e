"""Keyword beats environment beats file; what cannot be is an error that names its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_tokenmem import ModeProfile, TokenBudget, TokenMemorySettings
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.settings.words import ALIASES


def file(tmp_path, text, name="tokenmem.yaml"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def refusal(**keywords):
    with pytest.raises(ConfigurationError) as caught:
        TokenMemorySettings(**keywords)
    return str(caught.value)


def test_keyword_beats_environment_beats_file_beats_default(tmp_path, monkeypatch):
    file(tmp_path, "budget: {target: 0.31, compact_at: 0.61, warn_at: 0.71}\nmax_wait_s: 3\n")
    monkeypatch.setenv("TOKENMEM_BUDGET__TARGET", "0.32")
    monkeypatch.setenv("TOKENMEM_BUDGET__COMPACT_AT", "0.62")
    settings = TokenMemorySettings(budget={"target": 0.33})
    budget = settings.budget
    assert (budget.target, budget.compact_at, budget.warn_at) == (0.33, 0.62, 0.71)
    assert (settings.max_wait_s, settings.dangling) == (3, "answer")
    places = {".".join(path): given.place for path, given in settings.places().items()}
    assert places == {
        "budget.target": "keyword budget.target",
        "budget.compact_at": "variable TOKENMEM_BUDGET__COMPACT_AT",
        "budget.warn_at": "tokenmem.yaml:1",
        "max_wait_s": "tokenmem.yaml:2",
    }


def test_the_default_mode_is_conversation_and_none_is_none(monkeypatch):
    assert TokenMemorySettings().memory().engine.annotations.mode.name == "conversation"
    monkeypatch.setenv("TOKENMEM_MODE", "none")
    assert TokenMemorySettings().memory().engine.annotations.mode is None


@pytest.mark.parametrize("variable", ["TOKENMEM_MODE", "TOKENMEM_BUDGET__TARGET", "TOKENMEM_NONE"])
def test_an_empty_variable_is_none(variable, monkeypatch):
    monkeypatch.setenv(variable, " ")
    assert TokenMemorySettings().places() == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("budget:\n  traget: 0.3\n", "tokenmem.yaml:2: there is no setting 'budget.traget'."),
        ("budget:\n  traget: 0.3\n", "Did you mean budget.target?"),
        ("# first\nmod: code\n", "tokenmem.yaml:2: there is no setting 'mod'. Did you mean mode?"),
        ("max_wait_s: 3\nbudget: {target: much}\n", "tokenmem.yaml:2, budget.target is 'much'"),
        ("budget: {compact_at: 0.5,\n  target: 0.6}\n", "tokenmem.yaml:2, budget.target is 0.6"),
        ("budget: [\n", "tokenmem.yaml:2: the file cannot be read"),
        ("max_turns: 5\n", "max_tail_messages"),
        ("callbacks: [x]\n", "settings.memory(callbacks=...)"),
        ("warn_at: 0.5\n", "Did you mean budget.warn_at?"),
        ("just words\n", "holds no names"),
        ("models: {x: {max_inputs: 1}}\n", "'models.x.max_inputs'"),
        ("budget: 9000\nmode: code\nbudget: 8000\n", "tokenmem.yaml:3: budget is given twice"),
        ("budget:\n  target: 0.3\n compact_at: 0.7\n", "tokenmem.yaml:3: the file cannot be read"),
        ("budget:\ntarget: 0.3\n", "tokenmem.yaml:2: there is no setting 'target'. Did you mean b"),
        ("budget: 9000\r\nmax_wait_s: x\r\n", "tokenmem.yaml:2, max_wait_s is 'x'"),
        ("max_wait_s: yes\n", "tokenmem.yaml:1, max_wait_s is True; it is a number."),
        ("budget: 9000\nmode: true\nmax_wait_s: .inf\n", "tokenmem.yaml:3, max_wait_s is inf"),
        ("store:\n  inactive_for: P0D\n", "tokenmem.yaml:2, store.inactive_for is "),
    ],
)  # fmt: skip
def test_what_cannot_be_in_a_file_names_file_and_line(text, said, tmp_path):
    file(tmp_path, text)
    assert said in refusal()


def test_what_cannot_be_in_toml_names_file_and_line(tmp_path):
    file(tmp_path, '# a\n[budget]\ncontext_window = 8000\n\ntarget = "x"\n', "tokenmem.toml")
    assert "tokenmem.toml:5, budget.target is 'x'" in refusal()


@pytest.mark.parametrize("name", ["tokenmem.yaml", "tokenmem.toml"])
def test_a_file_that_is_not_utf_8_names_its_line(name, tmp_path):
    (tmp_path / name).write_bytes("# first\n# caf\xe9\n".encode("latin-1"))
    assert f"{name}:2: the file cannot be read" in refusal()


def test_a_byte_order_mark_and_line_endings_of_windows_are_taken(tmp_path):
    (tmp_path / "tokenmem.yaml").write_bytes(b"\xef\xbb\xbfbudget: 32_000\r\nmode: off\r\n")
    settings = TokenMemorySettings()
    assert (settings.budget.context_window, settings.mode) == (32_000, None)


@pytest.mark.parametrize("word", ["off", "No", "FALSE", "none"])
def test_a_mode_is_switched_off_in_any_words(word, tmp_path, monkeypatch):
    monkeypatch.setenv("TOKENMEM_MODE", word)
    assert TokenMemorySettings().mode is None
    monkeypatch.delenv("TOKENMEM_MODE")
    file(tmp_path, f"mode: {word}\n")
    assert TokenMemorySettings().mode is None
    assert TokenMemorySettings(mode=True).mode.name == "conversation"


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("TOKENMEM_CONTEXT_WINDOW", "8000", "Did you mean TOKENMEM_BUDGET__CONTEXT_WINDOW?"),
        ("TOKENMEM_BUDGET_TARGET", "0.3", "Did you mean TOKENMEM_BUDGET__TARGET?"),
        ("TOKENMEM_BUDGET", "32k", "variable TOKENMEM_BUDGET, budget.context_window is '32k'"),
        ("TOKENMEM_SESSION_INACTIVITY_DAYS", "30", "store.inactive_for takes a duration"),
        ("TOKENMEM_BUDGET__TRAGET", "0.3", "Did you mean TOKENMEM_BUDGET__TARGET?"),
        ("TOKENMEM_BUDGET__TARGET", "0.99", "variable TOKENMEM_BUDGET__TARGET"),
        ("TOKENMEM_MODE", "cod", "variable TOKENMEM_MODE"),
        ("TOKENMEM_MAX_TAIL_MESSAGES", "3", "variable TOKENMEM_MAX_TAIL_MESSAGES"),
        ("TOKENMEM_CONFIG", "nowhere.yaml", "variable TOKENMEM_CONFIG"),
    ],
)
def test_what_cannot_be_in_the_environment_names_the_variable(variable, value, said, monkeypatch):
    monkeypatch.setenv(variable, value)
    assert said in refusal()


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz_", min_size=1, max_size=20))
def test_an_unknown_keyword_is_never_ignored(name):
    known = {*TokenMemorySettings.model_fields, *ALIASES, "store", "recall", "saver", "middleware"}
    if name not in known:
        assert name in refusal(**{name: 1})


def test_two_names_of_one_setting_are_refused(monkeypatch):
    monkeypatch.setenv("TOKENMEM_VECTOR_RECALL_K", "3")
    monkeypatch.setenv("TOKENMEM_RECALL_K", "4")
    said = refusal()
    assert "TOKENMEM_VECTOR_RECALL_K" in said
    assert "TOKENMEM_RECALL_K" in said


def test_a_variable_is_never_covered_silently_by_that_of_its_group(monkeypatch):
    monkeypatch.setenv("TOKENMEM_RECALL", "off")
    monkeypatch.setenv("TOKENMEM_RECALL__LANGUAGE", "german")
    assert "TOKENMEM_RECALL__LANGUAGE" in refusal()
    monkeypatch.setenv("TOKENMEM_RECALL", "on")
    assert TokenMemorySettings().recall_settings.language == "german"


def test_two_files_are_refused_and_a_named_one_is_read(tmp_path, monkeypatch):
    file(tmp_path, "max_wait_s: 1\n")
    path = file(tmp_path, "max_wait_s = 2\n", "tokenmem.toml")
    assert "remove one of them" in refusal()
    monkeypatch.setenv("TOKENMEM_CONFIG", str(path))
    assert TokenMemorySettings().max_wait_s == 2


@pytest.mark.parametrize(
    ("word", "value", "name", "taken"),
    [
        ("warning_threshold", 0.7, "budget.warn_at", 0.7),
        ("auto_compact_threshold", 0.7, "budget.compact_at", 0.7),
        ("summarization_ratio", 0.3, "budget.target", 0.3),
        ("tool_result_max_chars", 500, "budget.result_chars", 500),
        ("token_threshold", 5_000, "trigger.tokens", 5_000),
        ("enable_auto_summary", False, "trigger", None),
        ("auto_inject", False, "inject_notes", False),
        ("working_memory_size", 30, "max_tail_messages", 30),
        ("vector_recall_k", 0, "recall_k", 0),
        ("summarizer_model", "openai:gpt-4o", "summarizer", "openai:gpt-4o"),
    ],
)
def test_words_that_people_bring_are_understood(word, value, name, taken, monkeypatch):
    monkeypatch.setenv(f"TOKENMEM_{word.upper()}", str(value))
    for settings in (TokenMemorySettings(), TokenMemorySettings(**{word: value})):
        here = settings
        for key in name.split("."):
            here = getattr(here, key)
        assert here == taken


def test_a_group_stands_for_what_a_lower_source_says_of_it(tmp_path, monkeypatch):
    file(
        tmp_path, "mode: {name: support, window: 20, sections: [facts]}\nrecall: {neighbours: 1}\n"
    )
    assert TokenMemorySettings().mode.made().sections == ("facts",)
    monkeypatch.setenv("TOKENMEM_MODE", "code")
    monkeypatch.setenv("TOKENMEM_RECALL", "on")
    settings = TokenMemorySettings()
    assert settings.mode.made() == groups_mode("code")
    assert settings.recall_settings.neighbours == 1
    assert TokenMemorySettings(recall=False).recall_settings is None


def groups_mode(name):
    return TokenMemorySettings(mode=name).mode.made()


def test_objects_of_the_parts_are_taken_as_keywords():
    own = ModeProfile("support", window=20, sections=("facts",))
    settings = TokenMemorySettings(budget=TokenBudget(9_000, target=0.3), mode=own)
    assert settings.memory().budget == TokenBudget(9_000, target=0.3)
    assert settings.memory().engine.annotations.mode == own


def test_secrets_stand_in_no_error_and_no_repr(monkeypatch):
    monkeypatch.setenv("TOKENMEM_STORE", "postgresql://ann:hush-hush@db/x")
    assert "hush" not in repr(TokenMemorySettings())
    monkeypatch.setenv("TOKENMEM_RECALL__CHROMA__HEADERS", '["hush-hush"]')
    said = refusal()
    assert "TOKENMEM_RECALL__CHROMA__HEADERS" in said
    assert "hush" not in said

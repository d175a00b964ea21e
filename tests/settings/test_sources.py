"""Keyword beats environment beats file; what cannot be is an error that names its place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_tokenmem import TokenBudget, TokenMemorySettings
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.modes import ModeProfile


def file(tmp_path, text, name="tokenmem.yaml"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def refusal(**keywords):
    with pytest.raises(ConfigurationError) as caught:
        TokenMemorySettings(**keywords)
    return str(caught.value)


def test_keyword_beats_environment_beats_file_beats_default(tmp_path, monkeypatch):
    file(tmp_path, "budget: {target: 0.31, compact_at: 0.61, summarize_at: 0.71}\nmax_wait_s: 3\n")
    monkeypatch.setenv("TOKENMEM_BUDGET__TARGET", "0.32")
    monkeypatch.setenv("TOKENMEM_BUDGET__COMPACT_AT", "0.62")
    for empty in ("TOKENMEM_MODE", "TOKENMEM_NONE"):
        monkeypatch.setenv(empty, "")
    settings = TokenMemorySettings(budget={"target": 0.33})
    budget = settings.budget
    assert (budget.target, budget.compact_at, budget.summarize_at) == (0.33, 0.62, 0.71)
    assert (settings.max_wait_s, settings.request.dangling) == (3, "answer")
    assert {".".join(path): place for path, place in settings.places().items()} == {
        "budget.target": "keyword budget.target",
        "budget.compact_at": "variable TOKENMEM_BUDGET__COMPACT_AT",
        "budget.summarize_at": "tokenmem.yaml",
        "max_wait_s": "tokenmem.yaml",
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("budget:\n  traget: 0.3\n", "budget.traget (tokenmem.yaml): there is no such setting"),
        ("budget: {compact_at: 0.5,\n  target: 0.6}\n", "budget (tokenmem.yaml): target (0.6)"),
        ("budget: [\n", "tokenmem.yaml cannot be read"),
        ("summarize_at: 0.5\n", "Did you mean budget.summarize_at?"),
        ("just words\n", "contains no names"),
        ("models: {x: {max_inputs: 1}}\n", "models.x.max_inputs (tokenmem.yaml): there is no such"),
        ("budget: 9000\nmode: code\nbudget: 8000\n", "line 3: budget is given twice"),
        ("max_wait_s: yes\n", "max_wait_s (tokenmem.yaml): it is True, and needs to be a number."),
        ("store:\n  inactive_for: P0D\n", "store (tokenmem.yaml): inactive_for is "),
        ('[budget]\ncontext_window = 8000\ntarget = "x"\n', "budget.target (tokenmem.toml): "),
        ("[budget]\ntarget = 1\ntarget = 1\n", "tokenmem.toml cannot be read"),
    ],
)
def test_what_cannot_be_in_a_file_names_the_file(text, said, tmp_path):
    file(tmp_path, text, "tokenmem.toml" if text.startswith("[") else "tokenmem.yaml")
    assert said in refusal()


def test_a_byte_order_mark_and_line_endings_of_windows_are_taken(tmp_path):
    (tmp_path / "tokenmem.yaml").write_bytes(b"\xef\xbb\xbfbudget: 32_000\r\nmode: off\r\n")
    settings = TokenMemorySettings()
    assert (settings.budget.context_window, settings.mode) == (32_000, None)


@pytest.mark.parametrize("word", ["off", "FALSE", "none"])
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
        ("TOKENMEM_BUDGET", "32k", "budget.context_window (variable TOKENMEM_BUDGET): "),
        ("TOKENMEM_BUGDET__TARGET", "0.3", "variable TOKENMEM_BUGDET__TARGET"),
        ("TOKENMEM_CONFIG", "nowhere.yaml", "variable TOKENMEM_CONFIG"),
        ("TOKENMEM_STORE__INACTIVE_FOR", "30", "it is not a duration; write P30D for 30 days"),
    ],
)
def test_what_cannot_be_in_the_environment_names_the_variable(variable, value, said, monkeypatch):
    monkeypatch.setenv(variable, value)
    assert said in refusal()


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz_", min_size=1, max_size=20))
def test_an_unknown_keyword_is_never_ignored(name):
    known = {*TokenMemorySettings.model_fields, "store", "recall", "saver", "middleware"}
    if name not in known:
        assert name in refusal(**{name: 1})


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
    ("text", "variable", "value", "window", "mode"),
    [
        ("budget: 9000\n", "TOKENMEM_BUDGET__TARGET", "0.35", 9_000, ("conversation", 3)),
        ("mode: code\n", "TOKENMEM_MODE__RECALL_K", "5", None, ("code", 5)),
        ("mode: {name: code, recall_k: 5}\n", "TOKENMEM_MODE", "code", None, ("code", 3)),
        ("mode: none\n", "TOKENMEM_MODE__RECALL_K", "5", None, ("conversation", 5)),
    ],
)
def test_a_short_form_and_a_field_of_its_group_are_merged(
    text, variable, value, window, mode, tmp_path, monkeypatch
):
    file(tmp_path, text)
    monkeypatch.setenv(variable, value)
    settings = TokenMemorySettings()
    assert settings.budget.context_window == window
    assert (settings.mode.name, settings.mode.recall_k) == mode


def test_objects_of_the_parts_are_taken_as_keywords():
    own = ModeProfile("support", window=20, sections=("facts",))
    budget = TokenBudget(9_000, target=0.3)
    memory = TokenMemorySettings(budget=budget, mode=own).memory()
    assert memory.budget == budget
    assert memory.engine.annotations.mode == own


def test_secrets_stand_in_no_error_and_no_repr(monkeypatch):
    monkeypatch.setenv("TOKENMEM_STORE", "postgresql://ann:hush-hush@db/x")
    assert "hush" not in repr(TokenMemorySettings())
    monkeypatch.setenv("TOKENMEM_RECALL__CHROMA__HEADERS", '["hush-hush"]')
    said = refusal()
    assert "TOKENMEM_RECALL__CHROMA__HEADERS" in said
    assert "hush" not in said

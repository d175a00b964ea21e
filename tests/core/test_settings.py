"""Settings that cannot work are refused where they are given, with what to write instead."""

import pytest

from langchain_tokenmem import Recall, TokenBudget, TokenMemory, TranscriptStore
from langchain_tokenmem.core.pins import new_pin
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.modes import ModeProfile, ToolKinds
from langchain_tokenmem.types import BackgroundSummaries, RequestRules, Shares


def budget(**fields):
    return TokenBudget(**{"context_window": 1_000, **fields})


def profile(**fields):
    return ModeProfile(**{"name": "own", "window": 10, "sections": ("facts",), **fields})


def recall(**fields):
    return Recall(TranscriptStore("sqlite://"), **fields)


REFUSED = [
    (TokenMemory, "budget", [("8k", r"budget=TokenBudget\(context_window=8_000\).*for_model")]),
    (TokenMemory, "trigger", [(0.6, r'pass "auto", None')]),
    (TokenMemory, "trigger", [(("tokens", 0), ""), ({"messages": -1}, ""), ({"words": 3}, "")]),
    (TokenMemory, "trigger", [([("fraction", 1.5)], ""), ([], ""), ("often", "")]),
    (TokenMemory, "trigger", [(("tokens", 10, 20), ""), (("tokens",), "")]),
    (TokenMemory, "request", [({"pin_first": False}, r"request=RequestRules\(pin_first=False\)")]),
    (TokenMemory, "max_wait_s", [(-1, "max_wait_s is -1")]),
    (TokenMemory, "now", [(3, "now is an int; pass a function")]),
    (TokenMemory, "background", [("yes", "background is a str; pass a BackgroundSummaries")]),
    (RequestRules, "max_tail_messages", [(5, "the tail moves by 10")]),
    (RequestRules, "max_messages", [(wrong, "max_messages is") for wrong in (1, -2, True, 2.5)]),
    (RequestRules, "dangling", [("keep", '"answer" or "drop"')]),
    (RequestRules, "legality", [("cohere", r"known are auto, anthropic, bedrock")]),
    (RequestRules, "whole_tools", [("read", "whole_tools"), ([1], "whole_tools")]),
    (RequestRules, "keep_results", [(-1, "keep_results")]),
    (budget, "context_window", [(10, "at least 256"), ("8k", "whole number")]),
    (budget, "reserve_output", [(990, "reserve less")]),
    (budget, "target", [(0.9, "target")]),
    (budget, "margin", [(2, "margin")]),
    (budget, "shares", [({"message": 0.5}, r"Shares\(recall=0\.1\)")]),
    (Shares, "message", [(1.5, "message")]),
    (Shares, "recall", [(0, "recall")]),
    (Shares, "working_recall", [(w, "working_recall") for w in (-0.1, 1.5, "much")]),
    (Shares, "result_tokens", [(0, "result_tokens")]),
    (Shares, "error_chars", [(-1, "error_chars")]),
    (BackgroundSummaries, "timeout_s", [(float("nan"), "timeout_s is nan")]),
    (BackgroundSummaries, "at_once", [(0, "at_once is 0")]),
    (recall, "scope", [("all", '"session" or "user"')]),
    (recall, "k", [(-1, "k is -1"), (True, "k is True")]),
    (profile, "name", [("my mode", "a name is a word")]),
    (profile, "window", [(-1, "window=-1")]),
    (profile, "limits", [({"files": "20"}, "files='20'"), ({"colours": 3}, "no limit 'colours'")]),
    (profile, "recall_k", [(True, "recall_k=True")]),
    (profile, "sections", [("facts", "a tuple of strings"), (("mood",), "no section 'mood'")]),
    (profile, "tools", [((1,), "tools=")]),
    (ToolKinds, "writes", [("write_file", "writes"), ({"write_file": 3}, "writes")]),
    (ToolKinds, "commands", [({"": "command"}, "commands")]),
    (ToolKinds, "reads", [("grep", "reads"), ([1], "reads")]),
    (new_pin, "text", [("", "pin"), (None, "pin"), ("x" * 4_001, "pin")]),
]
CASES = [(made, name, *case) for made, name, cases in REFUSED for case in cases]


@pytest.mark.parametrize(("made", "name", "value", "advice"), CASES)
def test_a_setting_that_cannot_work_is_refused(made, name, value, advice):
    with pytest.raises(ConfigurationError, match=advice or None):
        made(**{name: value})


def test_settings_that_exclude_each_other_are_refused():
    with pytest.raises(ConfigurationError):
        TokenMemory(request=RequestRules(max_tail_messages=20), trigger=None)
    with pytest.raises(ConfigurationError, match="reads"):
        ToolKinds(reads={"save"}, writes={"save": "path"})

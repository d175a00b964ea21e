"""Modes of working notes: the three with a name, and profiles of one's own."""

from __future__ import annotations

from typing import Any

import pytest

from langchain_tokenmem.core.working_notes.mode_profiles import MODES, SECTIONS, ModeProfile
from langchain_tokenmem.errors import ConfigurationError


def test_the_modes_show_every_section_once() -> None:
    shown = [section for profile in MODES.values() for section in profile.sections]
    assert sorted(shown) == sorted(SECTIONS)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"name": "my mode"}, "a name is a word"),
        ({"window": -1}, "window=-1"),
        ({"limits": {"files": "20"}}, "files='20'"),
        ({"limits": {"colours": 3}}, "no limit 'colours'"),
        ({"recall_k": True}, "recall_k=True"),
        ({"share": True}, "share=True"),
        ({"sections": "facts"}, "a tuple of strings"),
        ({"sections": None}, "sections=None"),
        ({"sections": ("facts", "mood")}, "no section 'mood'"),
        ({"tools": (1,)}, "tools="),
    ],
)
def test_a_profile_that_cannot_work_is_refused(changes: dict[str, Any], told: str) -> None:
    given: dict[str, Any] = {"name": "own", "window": 10, "sections": ("facts",), **changes}
    with pytest.raises(ConfigurationError, match=told):
        ModeProfile(**given)

"""Golden views of the recording in this repository, through every integration.

The digests stand in `test_recorded_agent.json`; `digests.py` says how they are made. After an
intended change of what is sent, record them again and read the difference:

    python -m pytest tests/golden --update-golden
    git diff tests/golden

To see what differs, write everything out before and after the change, and compare:

    python -m pytest tests/golden --dump-golden /tmp/before
    diff -r /tmp/before /tmp/after

`integration_tests/test_golden_views.py` does the same with the shared recordings.
"""

import pytest

from tests.contract.chats import CHATS
from tests.golden.play import play
from tests.golden.recordings import recorded_agent

CASES = [
    *((4_000, adapter, variant) for adapter in CHATS for variant in ("extractive", "model")),
    *(
        (window, name, "extractive")
        for window in (8_000, 32_000)
        for name in ("by-hand", "middleware")
    ),
    *((4_000, adapter, "extractive-recall") for adapter in ("history", "node")),
]
QUICK = {(4_000, "by-hand", "extractive")}
"""CI plays all."""


@pytest.mark.parametrize(
    ("window", "adapter", "variant"),
    [pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow) for case in CASES],
)
async def test_the_requests_are_those_of_before(golden, window, adapter, variant):
    recording = recorded_agent()
    calls = await play(recording, adapter, window, variant)
    assert len(calls) == len(recording.calls) == 24
    golden.check(f"{window} {adapter} {variant}", {recording.name: calls})

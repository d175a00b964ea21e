"""Odd conversations by the thousand: no view that a provider refuses, none over its limit.

Each view is formatted by LangChain's own integrations, and the body that would leave is checked by
`wire_rules.py` and counted with o200k. In half of the conversations the memory has the options of
`tests/features.py` too. `make nightly` looks at 20,000 views; otherwise at as many as a minute
allows, and at least at a few hundred.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter

import pytest
from formatters import REASON, body_of
from fuzzing import PROFILES, WINDOWS, Seen, views
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from wire_rules import FAULTS

for module in ("langchain_anthropic", "langchain_openai", "langchain_google_genai"):
    pytest.importorskip(module, reason=REASON)

IS_WHOLE = os.environ.get("TOKENMEM_PEERS") == "all"
PARTS = 2
VIEWS = (20_000 if IS_WHOLE else 700) // PARTS
LEAST = VIEWS if IS_WHOLE else 150
SECONDS = 8 * 3_600.0 if IS_WHOLE else 30.0
SHOWN = 10


def has_features(seed: int) -> bool:
    """Return whether a seed has the features; each part sees each profile with and without."""
    return seed // (PARTS * len(PROFILES)) % 2 == 1


@pytest.mark.parametrize("part", range(PARTS))
def test_no_view_of_an_odd_conversation_is_refused_or_over_its_limit(part: int) -> None:
    logging.disable(logging.WARNING)
    seen: list[Seen] = []
    seed, end = part, time.monotonic() + SECONDS
    try:
        while len(seen) < VIEWS and (len(seen) < LEAST or time.monotonic() < end):
            seen += views(seed, has_features=has_features(seed))
            seed += PARTS
    finally:
        logging.disable(logging.NOTSET)
    told = [f"seed {one.seed}, {one.profile}, {one.window}" for one in seen]
    assert {has_features(one.seed) for one in seen} == {False, True}
    refused = [
        f"{where}: {one.faults}" for one, where in zip(seen, told, strict=True) if one.faults
    ]
    over = [f"{where}: {one.over} over" for one, where in zip(seen, told, strict=True) if one.over]
    print(f"{len(seen)} views; no room for {sum(one.has_no_room for one in seen)}")
    assert not refused, "\n".join([f"{len(refused)} of {len(seen)} views", *refused[:SHOWN]])
    assert not over, "\n".join([f"{len(over)} of {len(seen)} views", *over[:SHOWN]])
    assert Counter(one.profile for one in seen).keys() == {*PROFILES}
    assert sum(one.has_no_room for one in seen) < 0.01 * len(seen)
    if IS_WHOLE:
        assert Counter(one.window for one in seen).keys() == {*WINDOWS}


CALL = AIMessage("", tool_calls=[{"name": "read", "args": {}, "id": "c1"}], id="a")
RESULT = ToolMessage("done", tool_call_id="c1", id="t")
GO = HumanMessage("Go.", id="h")


@pytest.mark.parametrize("wire", sorted(FAULTS))
def test_the_rules_accept_a_plain_request_and_refuse_a_call_without_its_result(wire: str) -> None:
    assert FAULTS[wire](body_of(wire, [GO, CALL, RESULT])) == []
    assert FAULTS[wire](body_of(wire, [GO, CALL, GO])) != []
    assert FAULTS[wire](body_of(wire, [GO, CALL])) != []

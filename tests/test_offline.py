"""Without a network everything works, with exact counts."""

from __future__ import annotations

import pytest

from tests.fakes import printed_by

CODE = """
import logging, socket

def refuse(*_args, **_kwargs):
    raise AssertionError("the network was asked")

socket.socket.connect = refuse
socket.getaddrinfo = refuse

lines = []

class Lines(logging.Handler):
    def emit(self, record):
        lines.append(record.getMessage())

logging.getLogger().addHandler(Lines(level=logging.WARNING))

from langchain_core.language_models import FakeListChatModel
from langchain_tokenmem import (
    TokenBudget,
    TokenMemory,
    TokenMemoryChatHistory,
    TranscriptStore,
    with_token_memory,
)
from langchain_tokenmem.counting import counter_for

for name in ("gpt-4o", "gpt-4", None):
    assert counter_for(name).method == "exact"
memory = TokenMemory(TokenBudget(context_window=1_000))
store = TranscriptStore("sqlite://")
chain = with_token_memory(FakeListChatModel(responses=["An answer of some words. "]), memory, store)
for number in range(60):
    text = f"Question {number}: where is order {4711 + number}? It was sent to Berlin."
    chain.invoke(text, {"configurable": {"session_id": "s"}})
history = TokenMemoryChatHistory("s", memory=memory, store=store)
usage = history.usage()
assert not usage.is_estimate and usage.input_tokens <= usage.max_tokens, usage
assert store.state("s").state["summary"]["covered"] > 0
assert len(history.full_history()) == 120
assert not lines, lines
print("fine")
"""


@pytest.mark.slow
def test_a_memory_works_without_network_and_without_tiktokens_cache(tmp_path):
    none = str(tmp_path / "none")
    caches = {"TIKTOKEN_CACHE_DIR": none, "DATA_GYM_CACHE_DIR": none}
    assert printed_by(CODE, "-W", "error", **caches).strip() == "fine"

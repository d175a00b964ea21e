"""Without a network everything works, with exact counts, and the import loads nothing heavy."""

import socket

import pytest
from pytest_socket import SocketBlockedError

from tests.fakes import printed_by

HEAVY = {
    *("chromadb", "langchain.agents", "langchain_community", "langgraph", "pydantic_settings"),
    *("sqlalchemy", "tiktoken"),
}


def test_the_import_loads_what_langchain_core_loads_and_nothing_heavier():
    loaded = printed_by("import sys, langchain_tokenmem; print(*sys.modules)").split()
    assert "langchain_tokenmem" in loaded
    names = {".".join(name.split(".")[:end]) for name in loaded for end in (1, 2)}
    assert names.isdisjoint(HEAVY)


def test_the_network_is_blocked_in_every_test():
    with pytest.raises(SocketBlockedError):
        socket.socket(socket.AF_INET, socket.SOCK_STREAM)


CODE = """
import socket

def refuse(*_args, **_kwargs):
    raise AssertionError("the network was asked")

socket.socket.connect = refuse
socket.getaddrinfo = refuse

from langchain_core.language_models import FakeListChatModel
from langchain_tokenmem import (
    TokenMemory, TokenMemoryChatHistory, TranscriptStore, with_token_memory
)
from langchain_tokenmem.counting import counter_for

for name in ("gpt-4o", "gpt-4", None):
    assert counter_for(name).method == "exact"
memory = TokenMemory(1_000)
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
print("fine")
"""


@pytest.mark.slow
def test_a_memory_works_without_network_and_without_tiktokens_cache(tmp_path):
    none = str(tmp_path / "none")
    caches = {"TIKTOKEN_CACHE_DIR": none, "DATA_GYM_CACHE_DIR": none}
    assert printed_by(CODE, "-W", "error", **caches).strip() == "fine", "and warns of nothing"

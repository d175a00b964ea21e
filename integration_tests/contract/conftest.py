"""Of each contract test two ways to hold its conversation are enough on PostgreSQL."""

from zlib import crc32

import pytest

from tests.contract.chats import CHATS


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave one way with a graph and one without, others from test to test; none by hand."""
    ways: dict[tuple[str, bool], list[pytest.Item]] = {}
    others = []
    for item in items:
        way = item.callspec.params.get("way") if hasattr(item, "callspec") else None
        if way is None or item.path.name != "test_contract_postgres.py":
            others.append(item)
            continue
        name = way if isinstance(way, str) else way[0]
        if name != "by-hand":
            ways.setdefault((item.originalname, CHATS[name].is_graph), []).append(item)

    def rank(item: pytest.Item) -> tuple[bool, int]:
        return "InMemorySaver" in item.nodeid, crc32(item.nodeid.encode())

    kept = [min(of_one, key=rank) for of_one in ways.values()]
    stay = {*others, *kept}
    config.hook.pytest_deselected(items=[item for item in items if item not in stay])
    items[:] = [item for item in items if item in stay]

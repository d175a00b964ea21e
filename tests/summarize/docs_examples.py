"""Invented runs whose entries are examples in docs/summaries.md."""

import json
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage


def step(number: int, name: str, result: object, **args: Any) -> list[BaseMessage]:
    """Return a call and its result."""
    key = f"call_{number}"
    text = result if isinstance(result, str) else json.dumps(result)
    call = {"id": key, "name": name, "args": args, "type": "tool_call"}
    return [AIMessage("", tool_calls=[call]), ToolMessage(text, tool_call_id=key)]


_SOURCE = "def total(lines):\n    return sum(line.net for line in lines)\n" * 20
_FAILED = (
    "============ test session starts ============\n"
    "test_invoice.py::test_total FAILED\n"
    "E   AssertionError: Decimal('21.40') != 21.4\n"
    "============ 1 failed, 11 passed in 0.52s ============"
)

CODING: Sequence[BaseMessage] = (
    HumanMessage(
        "Hi! The totals of invoices are wrong for foreign orders. "
        "Please fix it, but never touch the table ledger_2019."
    ),
    *step(1, "grep", "shop/invoice.py:41:def total(lines):", pattern="def total", path="shop"),
    *step(2, "read_file", _SOURCE, path="shop/invoice.py"),
    *step(3, "read_file", _SOURCE, path="shop/currency.py"),
    *step(4, "edit_file", "ok", path="shop/invoice.py", old="sum(", new="Decimal(sum("),
    *step(5, "bash", _FAILED, command="pytest test_invoice.py"),
    AIMessage("Let me look at the rounding again."),
    *step(6, "edit_file", "ok", path="shop/currency.py", old="float(", new="Decimal("),
    *step(7, "bash", "====== 12 passed in 0.48s ======", command="pytest test_invoice.py"),
    AIMessage("The totals are right now: rates are kept as Decimal in shop/currency.py."),
)

_ORDERS = {
    "customer_id": "ines_vidal_3302",
    "orders": [
        {"order_id": "#W7704193", "status": "delivered", "item": "desk lamp", "item_id": 50312277},
        {"order_id": "#W7718820", "status": "pending", "item": "bookshelf", "item_id": 50319904},
    ],
}

SUPPORT: Sequence[BaseMessage] = (
    HumanMessage("Hello, I'd like to return the desk lamp. My e-mail is ines.vidal@example.org."),
    *step(1, "find_customer", "ines_vidal_3302", email="ines.vidal@example.org"),
    *step(2, "get_orders", _ORDERS, customer_id="ines_vidal_3302"),
    AIMessage("The desk lamp is in order #W7704193. Shall I refund it to your card?"),
    HumanMessage("Refund it to the card, please."),
    HumanMessage("Actually, refund it to the gift card GC-88121 instead."),
    *step(
        3,
        "return_item",
        "Error: gift card GC-88121 is expired",
        order_id="#W7704193",
        item_id=50312277,
        payment_id="GC-88121",
    ),
    AIMessage("The gift card GC-88121 is expired, so the refund was not made."),
)

EXAMPLES = {"coding": CODING, "support": SUPPORT}

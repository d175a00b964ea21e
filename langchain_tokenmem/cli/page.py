"""The page: one self-contained HTML document of a session, or of the list of sessions; its server.

The server is for this machine only: loopback, read-only, with a token in the address. A search
completes the store's index of words, as one of the application does; nothing else is ever written.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping, Sequence
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from itertools import takewhile
from typing import Any
from urllib.parse import parse_qs, urlsplit

from jinja2 import Environment
from markupsafe import Markup

from langchain_tokenmem.cli.calls import PARTS, Call, CallFacts, session_calls
from langchain_tokenmem.cli.looking import NAMES, text_with_calls
from langchain_tokenmem.cli.measures import CACHED, price
from langchain_tokenmem.cli.stored_sessions import StoredSessions
from langchain_tokenmem.cli.terminal import many, time_text
from langchain_tokenmem.errors import ScopeError, TokenMemoryError
from langchain_tokenmem.storage.transcripts import TranscriptRow

_ON_A_PAGE = 50
"""Sessions on one page of the list, and maximum hits of a search."""


def policy() -> str:
    """Return the content security policy of the page: its own style and script, and no network."""
    hashes = {
        name: "sha256-" + base64.b64encode(hashlib.sha256(_file(name).encode()).digest()).decode()
        for name in ("page.css", "page.js")
    }
    return (
        f"default-src 'none'; style-src '{hashes['page.css']}'; script-src '{hashes['page.js']}'; "
        f"base-uri 'none'; form-action 'self'"
    )


def session_page(
    found: StoredSessions, session: str, window: int | None = None, *, home: str = ""
) -> str:
    """Return the page of a session: its calls, their requests, the transcript.

    Args:
        found: Where the session is.
        session: Its id.
        window: Tokens of the context window; see `session_calls`.
        home: Address of the list of sessions; empty if the page stands alone.

    Raises:
        ScopeError: When there is no such session.
        BudgetExceededError: When a request cannot fit the window.
    """
    rows = found.rows(session)
    known = session_calls(found, session, window)
    texts = [text_with_calls(row.message) for row in rows]
    made: list[dict[str, Any]] = []
    shown: list[Mapping[str, Any]] = []
    for call in known.calls:
        one = known.facts(call)
        items = [_item(item, texts) for item in one.items]
        pairs = zip(shown, items, strict=False)
        same = len([*takewhile(lambda pair: pair[0] == pair[1], pairs)])
        made.append(_call(one, call, keep=same, add=items[same:]))
        new = sum(item["tokens"] for item in items[same:])
        made[-1] |= _costs(made[-1], made[-2] if len(made) > 1 else None, new)
        shown = items
    about = f"{many(len(rows), 'message')}. Calls {known.origin}."
    if len(made) > 1:
        about += (
            f" Price of the calls made: {made[-2]['paid']:,} tokens; everything sent each time: "
            f"{made[-2]['whole_paid']:,}. A cached token counts as {CACHED}."
        )
    levels = ("summarize", "compact", "target")
    data = {
        "levels": {name: getattr(known.budget, f"{name}_tokens") for name in levels},
        "window": known.budget.context_window,
        "about": about,
        "parts": PARTS,
        "messages": [*map(_message, rows, texts, known.counts)],
        "calls": made,
    }
    return _rendered(title=session, data=_as_data(data), home=home)


def list_page(
    found: StoredSessions, *, query: str = "", matching: str = "", number: int = 1
) -> str:
    """Return the page that lists sessions, or the messages that a search finds in all of them."""
    hits = found.search(query, k=_ON_A_PAGE) if query else []
    offset = (number - 1) * _ON_A_PAGE
    sessions, is_last = found.page(matching=matching, limit=_ON_A_PAGE, offset=offset)
    return _rendered(
        title="Sessions",
        data=None,
        query=query,
        matching=matching,
        hits=hits,
        sessions=sessions,
        number=number,
        is_last=is_last,
    )


def _item(item: Mapping[str, Any], texts: Sequence[str]) -> Mapping[str, Any]:
    """Return a part of a request; the text of a whole message is in the transcript only."""
    place = item["place"]
    is_whole = place is not None and item["text"] == texts[place]
    return {**item, "text": None} if is_whole else item


def _message(row: TranscriptRow, text: str, tokens: int) -> dict[str, Any]:
    time = time_text(row.created_at) if row.is_dated else ""
    return {"role": row.message.type, "text": text, "tokens": tokens, "time": time}


def _call(facts: CallFacts, call: Call, *, keep: int, add: Sequence[Any]) -> dict[str, Any]:
    fields = ("tokens", "limit", "whole", "summarized", "change", "warnings", "is_next")
    own = {name: getattr(facts, name) for name in fields}
    parts = [*facts.parts.values()]
    return {**own, "parts": parts, "length": len(call.history), "keep": keep, "add": add}


def _costs(call: dict[str, Any], before: dict[str, Any] | None, new: int) -> dict[str, int]:
    """Return what a call costs, in tokens at full price: alone, and with all calls before it.

    Args:
        call: The call.
        before: The call before it; None for the first.
        new: Tokens after the prefix that it shares with the call before.
    """
    cached = max(0, min(call["tokens"] - new, before["tokens"])) if before else 0
    known = min(call["whole"], before["whole"]) if before else 0
    own, whole = price(call["tokens"], cached), price(call["whole"], known)
    paid, whole_paid = (before["paid"], before["whole_paid"]) if before else (0, 0)
    return {
        "cached": cached,
        "price": round(own),
        "paid": round(paid + own),
        "whole_paid": round(whole_paid + whole),
    }


def _as_data(value: Any) -> Markup:
    """Return JSON that is safe in a script element: nothing in it can end the element."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)  # noqa: S704  # no HTML character is left in it


def _rendered(**values: Any) -> str:
    template = Environment(autoescape=True).from_string(_file("page.html"))
    css, js = (Markup(_file(name)) for name in ("page.css", "page.js"))  # noqa: S704  # our own
    return template.render(css=css, js=js, policy=policy(), names=NAMES, **values)


@cache
def _file(name: str) -> str:
    return (files(__package__) / "page_files" / name).read_text(encoding="utf-8")


HOST = "127.0.0.1"
_DIGITS = 8
"""Maximum digits of the number of a page."""


class PageServer(ThreadingHTTPServer):
    """Serves the list of sessions and the page of each.

    Args:
        found: The sessions.
        port: Port on 127.0.0.1; 0 for any free one.
        window: Tokens of the context window; see `session_calls`.

    Attributes:
        address: Address of the list, including the token. Any other address is answered with 404.

    Raises:
        OSError: When the port is taken.
    """

    daemon_threads = True

    def __init__(self, found: StoredSessions, port: int = 0, window: int | None = None) -> None:
        super().__init__((HOST, port), _Handler)
        self.found, self.window = found, window
        self.token = secrets.token_urlsafe(24)
        self.address = f"http://{HOST}:{self.server_port}/{self.token}/"

    def page(self, path: str, query: dict[str, str]) -> str | None:
        """Return the page at a path after the token, or None if the path is unknown."""
        if path == "session":
            return session_page(self.found, query.get("name", ""), self.window, home="./")
        if path:
            return None
        given = query.get("page", "1")[:_DIGITS]
        number = max(1, int(given)) if given.isdecimal() else 1
        matching = query.get("filter", "")
        return list_page(self.found, query=query.get("q", ""), matching=matching, number=number)


class _Handler(BaseHTTPRequestHandler):
    """Answers GET, and nothing else."""

    server: PageServer

    def do_GET(self) -> None:
        """Answer with a page, or with an error in plain text."""
        address = urlsplit(self.path)
        _, token, path = [*address.path.split("/", 2), "", ""][:3]
        query = {key: values[0] for key, values in parse_qs(address.query).items()}
        # A domain that an attacker points to this machine comes with its own host.
        host = self.headers.get("Host", "")
        known_host = host in {f"{name}:{self.server.server_port}" for name in (HOST, "localhost")}
        given = hmac.compare_digest(token.encode(), self.server.token.encode())
        status, page = HTTPStatus.NOT_FOUND, None
        text = "There is no such page; the address that `tokenmem serve` printed has a token.\n"
        if known_host and given:
            try:
                page = self.server.page(path, query)
            except TokenMemoryError as error:
                text = f"{error}\n"
                if not isinstance(error, ScopeError):
                    status = HTTPStatus.INTERNAL_SERVER_ERROR
        body = (text if page is None else page).encode("utf-8", "replace")
        self.send_response(status if page is None else HTTPStatus.OK)
        kind = "plain" if page is None else "html"
        for name, value in (
            ("Content-Type", f"text/{kind}; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("Content-Security-Policy", f"{policy()}; frame-ancestors 'none'"),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cache-Control", "no-store"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write nothing: the address contains the token."""

"""A server of the page on this machine only: loopback, read-only, with a token in the address.

A search completes the store's index of words, as one of the application does; nothing else is
ever written.
"""

from __future__ import annotations

import hmac
import secrets
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from langchain_tokenmem.cli.page import list_page, policy, session_page
from langchain_tokenmem.cli.stored_sessions import StoredSessions
from langchain_tokenmem.errors import ScopeError, TokenMemoryError

HOST = "127.0.0.1"
_DIGITS = 8
"""Of the number of a page."""


class PageServer(ThreadingHTTPServer):
    """Serves the list of sessions and the page of each.

    Args:
        found: The sessions.
        port: Port on 127.0.0.1; 0 for any free one.
        window: Tokens of the context window; see `session_calls`.

    Attributes:
        address: Where the list is, the token included. Any other address is answered with 404.

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
        """Return the page at a path behind the token; None where there is none."""
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
        # A name that an attacker lets point to this machine comes with its own host.
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
        """Write nothing: the address has the token."""

"""A local server that speaks the endpoints of Anthropic, Google and AWS that count tokens."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ANSWERS = {
    "/count_tokens": "input_tokens",
    ":countTokens": "totalTokens",
    "/count-tokens": "inputTokens",
}


@dataclass
class CountServer:
    """What the server answers, and what it was asked.

    Attributes:
        url: Where it is.
        tokens: Tokens that it answers.
        status: Status of its answers.
        seconds: Seconds that it takes for each.
        requests: Path and body of each request.
        most_at_once: Most requests that it had at once.
    """

    url: str = ""
    tokens: int = 321
    status: int = 200
    seconds: float = 0.0
    requests: list[tuple[str, Any]] = field(default_factory=list)
    most_at_once: int = 0
    running: int = 0
    lock: Any = field(default_factory=threading.Lock)

    def answer(self, path: str, body: Any) -> tuple[int, dict[str, Any]]:
        with self.lock:
            self.requests.append((path, body))
            self.running += 1
            self.most_at_once = max(self.most_at_once, self.running)
        time.sleep(self.seconds)
        with self.lock:
            self.running -= 1
        if self.status != 200:
            return self.status, {"error": {"type": "rate_limit_error", "message": "slow down"}}
        key = next(
            (key for end, key in ANSWERS.items() if path.split("?", maxsplit=1)[0].endswith(end)),
            "",
        )
        return (200, {key: self.tokens}) if key else (404, {"error": {"message": path}})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any

    def do_POST(self) -> None:
        size = int(self.headers.get("content-length") or 0)
        status, answer = self.server.counts.answer(self.path, json.loads(self.rfile.read(size)))
        written = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(written)))
        self.end_headers()
        self.wfile.write(written)

    def log_message(self, *_args: Any) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, *_args: Any) -> None:
        """Say nothing of clients that have left."""


@contextmanager
def count_server() -> Iterator[CountServer]:
    """Run a server as long as the block does."""
    server = _Server(("127.0.0.1", 0), _Handler)
    counts = CountServer(f"http://127.0.0.1:{server.server_port}")
    server.counts = counts  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield counts
    finally:
        server.shutdown()
        server.server_close()

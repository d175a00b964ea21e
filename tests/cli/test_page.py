"""The page as text, and the server; integration_tests/test_page_in_browser.py opens it."""

import http.client
import json
import re
import threading
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from pytest_socket import enable_socket

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.cli.page import PageServer, policy
from langchain_tokenmem.cli.stored_sessions import StoredSessions
from tests.cli.command import ran

RECORDED = Path(__file__).parents[2] / "examples" / "recorded_agent.jsonl"
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> & <!-- \u2028"


@pytest.fixture
def store():
    with TranscriptStore("sqlite://") as opened:
        opened.add("<b>s1</b>", [HumanMessage(HOSTILE), AIMessage("Lighthouse " + HOSTILE)])
        yield opened


def data_of(page):
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(found[1])


@pytest.mark.slow
def test_the_page_has_every_call_and_every_message_once(tmp_path):
    file = tmp_path / "out.html"
    args = ("show", RECORDED, "recorded-agent", "-w", 6_000, "--html", file)
    ran(*args)
    page = file.read_text(encoding="utf-8")
    data = data_of(page)
    assert (len(data["messages"]), len(data["calls"])) == (56, 25)
    shown, sent = [], 0
    for call in data["calls"]:
        shown = shown[: call["keep"]] + call["add"]
        assert sum(call["parts"]) == call["tokens"] <= call["limit"]
        kinds = {item["kind"] for item in shown}
        assert ("summary" in kinds) == bool(call["summarized"])
        assert 0 <= call["cached"] <= min(call["tokens"], sent)
        sent = call["tokens"]
        assert call["price"] == round(call["tokens"] - 0.9 * call["cached"])
    assert data["calls"][-1]["paid"] == pytest.approx(
        sum(c["price"] for c in data["calls"]), abs=25
    )
    assert data["calls"][-1]["paid"] < 0.8 * data["calls"][-1]["whole_paid"]
    assert data["levels"]["target"] < data["levels"]["compact"] < data["levels"]["summarize"]
    assert len(page) < 200_000
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)
    ran(*args, code=2)  # the file is there


def served(found):
    enable_socket()
    server = PageServer(found)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def get(server, path, method="GET", host=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    connection.request(method, path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer, body


@pytest.mark.slow
def test_the_server_needs_its_token_and_its_own_host_and_only_reads(store):
    with served(StoredSessions(store)) as server:
        base = f"/{server.token}/"
        answer, page = get(server, base)
        assert answer.status == 200
        assert answer.headers["Content-Security-Policy"].startswith(policy())
        assert "&lt;b&gt;s1&lt;/b&gt;" in page
        assert "<b>s1" not in page
        for path in ("/", "/wrong/", f"{base}other", f"{base}session?name=nobody"):
            assert get(server, path)[0].status == 404
        assert get(server, base, host=f"evil.example:{server.server_port}")[0].status == 404
        assert get(server, base, "POST")[0].status == 501
        page = get(server, f"{base}session?name=%3Cb%3Es1%3C/b%3E")[1]
        assert data_of(page)["messages"][0]["text"] == HOSTILE
        assert page.count("<script") == 2
        assert "alert(1)</script>" not in page
        assert "score" in get(server, f"{base}?q=lighthouse")[1]
        assert "No message" in get(server, f"{base}?q=zeppelin")[1]
        assert "There are none" in get(server, f"{base}?filter=nobody")[1]
        server.shutdown()

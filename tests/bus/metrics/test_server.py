"""The page of metrics of a process without HTTP of its own."""

from __future__ import annotations

import socket
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from prometheus_client import CollectorRegistry, Counter

from bus.metrics import page as metrics_page
from bus.metrics.read_page import read_page
from bus.metrics.server import NO_PORT, MetricsServer

TOKEN = "a-token-of-pages"


def raw(port: int, request: bytes) -> bytes:
    """What comes back for these bytes, to the end of the connection."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), 60) as connection:
        try:
            connection.sendall(request)
            while piece := connection.recv(65_536):
                answer += piece
        except ConnectionError:
            pass  # cut off, which is an answer, too
    return answer


def fetch(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return str(answer.read().decode())


@pytest.fixture
def registry() -> CollectorRegistry:
    made = CollectorRegistry()
    Counter("made", "Help.", registry=made).inc()
    return made


def test_the_page_shows_the_registry_and_that_the_process_lives(
    registry: CollectorRegistry,
) -> None:
    page = MetricsServer("127.0.0.1", 0, registry)
    assert "made_total 1.0" in fetch(page.port, "/metrics")
    assert fetch(page.port, "/healthz") == "ok\n"
    page.close()
    with pytest.raises(OSError):
        fetch(page.port, "/metrics")


def test_a_port_that_is_taken_and_none_at_all_end_nothing(
    registry: CollectorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    first = MetricsServer("127.0.0.1", 0, registry)
    second = MetricsServer("127.0.0.1", first.port, registry)
    assert second.port == NO_PORT
    assert f"no page of metrics at 127.0.0.1:{first.port}" in caplog.text
    second.close()
    none = MetricsServer("127.0.0.1", NO_PORT, registry)
    assert none.port == NO_PORT
    none.close()
    assert "made_total" in fetch(first.port, "/metrics")
    first.close()


def test_who_asks_nothing_is_cut_off_and_stops_nobody(
    registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_page, "REQUEST_S", 0.3)
    page = MetricsServer("127.0.0.1", 0, registry)
    silent = [socket.create_connection(("127.0.0.1", page.port), 10) for _ in range(20)]
    assert "made_total" in fetch(page.port, "/metrics")
    for one in silent:
        with pytest.raises(ConnectionResetError):
            one.recv(1) or (_ for _ in ()).throw(ConnectionResetError)
        one.close()
    page.close()


@pytest.fixture
def closed_page(registry: CollectorRegistry) -> Iterator[MetricsServer]:
    """One with a token, and a page of its process besides."""
    pages = {b"/status": lambda: '{"made": 1}'}
    page = MetricsServer("127.0.0.1", 0, registry, pages, page_token=TOKEN)
    yield page
    page.close()


@pytest.mark.parametrize("path", ["/metrics", "/status", "/metrics?a=b", "/nowhere"])
def test_every_page_asks_for_the_token(closed_page: MetricsServer, path: str) -> None:
    """Also what is not there: a stranger is not told which pages there are."""
    answer = raw(closed_page.port, f"GET {path} HTTP/1.1\r\nHost: m\r\n\r\n".encode())
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 401 ")
    assert b"\r\nWWW-Authenticate: Bearer\r\n" in head
    assert b"[security] page_token" in body
    assert b"made" not in answer
    assert TOKEN.encode() not in answer


def test_the_token_opens_every_page(closed_page: MetricsServer) -> None:
    url = f"http://127.0.0.1:{closed_page.port}"
    assert b"made_total 1.0" in read_page(f"{url}/metrics", 60, TOKEN)
    assert read_page(f"{url}/status", 60, TOKEN) == b'{"made": 1}'
    with pytest.raises(OSError, match="404"):
        read_page(f"{url}/nowhere", 60, TOKEN)


def test_that_it_lives_everybody_may_ask_and_hears_nothing_else(closed_page: MetricsServer) -> None:
    assert fetch(closed_page.port, "/healthz") == "ok\n"


@pytest.mark.parametrize(
    "header",
    [b"Authorization: Bearer wrong", b"Authorization: Bearer ", b"Authorization: Bearer", b"Authorization:",
     b"Authorization: " + TOKEN.encode(), b"Authorization: Basic " + TOKEN.encode(),
     b"Authorization: Bearer \xff\xfe\x00", "Authorization: Bearer 令牌".encode(),
     b"X-Authorization: Bearer " + TOKEN.encode(), b"Authorization : Bearer " + TOKEN.encode(),
     b"Authorization: Bearer wrong\r\nAuthorization: Bearer " + TOKEN.encode(),
     b"Authorization: Bearer " + TOKEN.encode() * 400, b"Authorization: Bearer " + b"x" * 100_000,
     b"Cookie: Authorization: Bearer " + TOKEN.encode()],
    ids=range(14),
)  # fmt: skip
def test_no_other_header_opens_a_page(closed_page: MetricsServer, header: bytes) -> None:
    answer = raw(closed_page.port, b"GET /metrics HTTP/1.1\r\n" + header + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 401 ") or answer == b""
    assert b"made" not in answer
    assert fetch(closed_page.port, "/healthz") == "ok\n"


def test_a_reader_does_not_carry_its_token_where_an_answer_redirects(
    closed_page: MetricsServer,
) -> None:
    """A page that was taken over could else collect the token of all the others."""
    seen: list[str | None] = []

    class RedirectedRequest(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers["Authorization"])
            self.send_response(302)
            self.send_header("Location", f"http://127.0.0.1:{closed_page.port}/metrics")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), RedirectedRequest)
    thread = threading.Thread(target=server.handle_request, daemon=True)
    thread.start()
    with pytest.raises(OSError, match="401"):
        read_page(f"http://127.0.0.1:{server.server_port}/metrics", 60, TOKEN)
    thread.join(60)
    server.server_close()
    assert seen == [f"Bearer {TOKEN}"]

"""Which senders edges refuse, asked of each of them; one that is away hides no other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
import pytest

from bus.contracts.sender_faults import RefusedPeer, SenderFaults
from monitor.api.sender_faults import edge_addresses, senders_of_edges
from monitor.settings import ConsoleSettings

ROW = RefusedPeer(
    reason="foreign-form", maker="M", peer="10.0.0.1", requests=3, first_ms=1, last_ms=5,
    request="POST /x",
)  # fmt: skip


@pytest.fixture
def edge_url() -> Iterator[str]:
    """An edge with a reader's token."""

    class SendersAnswers(BaseHTTPRequestHandler):
        """Its answers."""

        def do_GET(self) -> None:
            """The table."""
            known = self.headers["Authorization"] == "Bearer t"
            self.send_response(200 if known and self.path == "/v1/senders" else 401)
            self.end_headers()
            rows = [ROW, msgspec.structs.replace(ROW, peer="10.0.0.2", last_ms=9)]
            self.wfile.write(msgspec.json.encode(SenderFaults(since_ms=0, refused=rows)))

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), SendersAnswers)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


async def test_all_edges_are_asked_and_the_newest_refusals_come_first(edge_url: str) -> None:
    """With the token; what is no edge is not asked; who does not answer is named."""
    health = {"edge": edge_url + "/healthz", "edge-2": "http://127.0.0.1:1/healthz",
              "broker": edge_url + "/healthz"}  # fmt: skip
    console = ConsoleSettings(health=health, edge_token="t")
    assert edge_addresses(console) == {"edge": edge_url, "edge-2": "http://127.0.0.1:1"}
    found = await senders_of_edges(console)
    assert [(edge, one.peer) for edge, one in found.refused] == [
        ("edge", "10.0.0.2"), ("edge", "10.0.0.1"),
    ]  # fmt: skip
    assert list(found.away) == ["edge-2"]


async def test_an_edge_that_wants_another_token_is_away_with_its_answer(edge_url: str) -> None:
    """The page says so instead of showing nothing."""
    found = await senders_of_edges(ConsoleSettings(health={"edge": edge_url + "/healthz"}))
    assert found.away == {"edge": "HTTP 401"}

"""A recognition server's line to an edge that does not always accept what it gets."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
import pytest

from bus.contracts.meters import Sent
from ingest.senders.simulator.edge_uplink import EdgeUplink, UplinkSettings

COUNTERS = [
    Sent(producer="city/10.0.0.254", epoch=1, kind="vehicle", camera_ip="10.0.0.1", minute_ms=0,
         sent=7)
]  # fmt: skip


class FakeEdge(ThreadingHTTPServer):
    """An edge that refuses the first posts, by turns with a status and by hanging up."""

    def __init__(self, refusals: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.refusals = refusals
        self.taken: list[Sent] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Handler(BaseHTTPRequestHandler):
    server: FakeEdge

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.refusals:
            self.server.refusals -= 1
            if self.server.refusals % 2:
                self.send_error(503)
            self.close_connection = True
            return
        self.server.taken += msgspec.json.decode(body, type=list[Sent])
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing; the test says what matters."""


@pytest.fixture
def edge() -> Iterator[FakeEdge]:
    made = FakeEdge(refusals=3)
    yield made
    made.shutdown()
    made.server_close()


def test_the_last_counters_are_told_until_they_are_taken(edge: FakeEdge) -> None:
    """There is no next interval for them; an account would be short of them."""
    told: list[Sent] = []
    settings = UplinkSettings(
        edge_url=f"http://127.0.0.1:{edge.server_port}", run="r", interval_ms=10, max_records=10,
        buffer_records=10, timeout_ms=5_000,
    )  # fmt: skip
    uplink = EdgeUplink("10.0.0.254", settings, lambda post, answer: None, lambda at_ms: 0)
    uplink.send_counters(COUNTERS, told.extend)
    uplink.stop()
    uplink.start()
    assert uplink.join(30)
    assert told == edge.taken == COUNTERS

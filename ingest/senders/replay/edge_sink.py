"""Sends recorded messages through the edge, as a recognition server would.

Posts keep the order of the file; each is tried until the edge answers. The edge makes the
identities here: from `记录编号`, or from the key of the post.
"""

from __future__ import annotations

import logging
import time

import msgspec

from bus.contracts.meters import Sent
from ingest.senders.replay.lines import Recorded
from ingest.senders.replay.routing import RoutedRecord
from ingest.senders.simulator.edge_connection import EdgeConnection, EdgeRefused, EdgeResponse
from ingest.senders.simulator.outbox import Outbox, Outgoing, Post

log = logging.getLogger(__name__)

POST_RECORDS = 500
OLDEST_MS = 200  # at a slow pace a record waits no longer than this for company
TIMEOUT_MS = 30_000
PAUSES_S = (0.2, 0.5, 1.0, 2.0, 5.0)  # then 5 s for ever: the edge may be restarting


class EdgeSink:
    """Invariant: records reach the edge in the order of the file."""

    def __init__(self, edge_url: str, file_identity: str) -> None:
        self.acknowledged = 0
        self._file = file_identity
        self._sent = 0
        self._connection = EdgeConnection(edge_url, TIMEOUT_MS, {"X-Replay": "1"})
        self._outbox = Outbox(POST_RECORDS * 4, POST_RECORDS)
        self._oldest_ms = 0

    def send(self, recorded: Recorded, routed: RoutedRecord, now_ms: int) -> None:
        """Hand over one recorded message; posts when enough are there or the oldest waited."""
        if not self._outbox:
            self._oldest_ms = now_ms
        self._outbox.put([Outgoing(self._sent, recorded.kind, _one_line(recorded.body), now_ms)])
        self._sent += 1
        if len(self._outbox) >= POST_RECORDS or now_ms - self._oldest_ms >= OLDEST_MS:
            self.flush()

    def send_counters(self, counters: list[Sent]) -> None:
        """Counters, after everything they count."""
        self.flush()
        for start in range(0, len(counters), POST_RECORDS):
            body = msgspec.json.encode(counters[start : start + POST_RECORDS])
            self._post_until_accepted("/v1/counters", body, {"Content-Type": "application/json"})

    def flush(self) -> None:
        """Post everything."""
        while post := self._outbox.next_post():
            self._post(post)
            self._outbox.done()

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def _post(self, post: Post) -> None:
        key = f"replay-{self._file}-{post.records[0].n}-{len(post.records)}"
        headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": key}
        answer = self._post_until_accepted(f"/v1/records/{post.kind}", post.body, headers)
        decoded = msgspec.json.decode(answer, type=EdgeResponse)
        self.acknowledged += decoded.accepted + len(decoded.rejected)

    def _post_until_accepted(self, path: str, body: bytes, headers: dict[str, str]) -> bytes:
        attempt = 0
        while True:
            try:
                return self._connection.post(path, body, headers)
            except EdgeRefused as error:
                pause_s = PAUSES_S[min(attempt, len(PAUSES_S) - 1)]
                log.warning("edge: %s; again in %.1f s", error, pause_s)
                time.sleep(pause_s)
                attempt += 1


def _one_line(body: bytes) -> bytes:
    """A recorded record may have been written over several lines; the edge reads one per line."""
    return body.replace(b"\r\n", b" ").replace(b"\n", b" ")

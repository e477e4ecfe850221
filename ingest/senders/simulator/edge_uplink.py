"""A recognition server's connection to the edge: a thread that posts what its outbox holds.

No record is given up: every failed post is retried with back-off, under the same key. Core:
`outbox`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from bus.contracts.meters import Sent
from ingest.senders.simulator.edge_connection import EdgeConnection, EdgeRefused, EdgeResponse
from ingest.senders.simulator.outbox import Outbox, Outgoing, Post

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0


@dataclass(frozen=True, slots=True)
class UplinkSettings:
    """How one server posts."""

    edge_url: str
    run: str
    interval_ms: int
    max_records: int
    buffer_records: int
    timeout_ms: int
    token: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """What goes with every request."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


class EdgeUplink:
    """Invariant: records leave in the order in which they came, one post at a time."""

    def __init__(
        self,
        server: str,
        settings: UplinkSettings,
        on_response: Callable[[Post, EdgeResponse], None],
        delay_ms: Callable[[int], int],
    ) -> None:
        self.server = server
        self._settings = settings
        self._on_response = on_response
        self._delay_ms = delay_ms
        self._outbox = Outbox(settings.buffer_records, settings.max_records)
        self._condition = threading.Condition()
        self._counters: list[Sent] = []
        self._on_acknowledged: Callable[[list[Sent]], None] | None = None
        self._stopping = threading.Event()
        self._connection = EdgeConnection(settings.edge_url, settings.timeout_ms, settings.headers)
        self._thread = threading.Thread(target=self._run, name=f"server-{server}", daemon=True)

    def start(self) -> None:
        """Begin to post."""
        self._thread.start()

    def room(self) -> int:
        """How many more records fit into the buffer."""
        with self._condition:
            return self._outbox.room

    def put(self, records: Sequence[Outgoing]) -> None:
        """Hand over records; returns at once."""
        with self._condition:
            self._outbox.put(records)
            self._condition.notify()

    def send_counters(
        self, counters: list[Sent], on_acknowledged: Callable[[list[Sent]], None]
    ) -> None:
        """Hand over counters for the edge; the newest replace those not yet sent."""
        with self._condition:
            self._counters, self._on_acknowledged = counters, on_acknowledged
            self._condition.notify()

    def stop(self) -> None:
        """Post what is there without waiting for more, then end."""
        self._stopping.set()
        with self._condition:
            self._condition.notify()

    def join(self, timeout_s: float) -> bool:
        """Whether everything was handed over within the time."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._condition:
                while not (self._outbox or self._counters or self._stopping.is_set()):
                    self._condition.wait()
                idle = not self._outbox and not self._counters
            if idle:
                break
            self._post_pending()
            self._stopping.wait(self._settings.interval_ms / 1000)
        self._connection.close()

    def _post_pending(self) -> None:
        with self._condition:
            counters, on_acknowledged, self._counters = self._counters, self._on_acknowledged, []
            posts = self._outbox.lanes
        for _ in range(posts):
            self._post_one()
        if counters and on_acknowledged is not None:
            self._post_counters(counters, on_acknowledged)

    def _post_one(self) -> None:
        with self._condition:
            post = self._outbox.next_post()
        if post is None:
            return
        self._wait_for_slow_line(post)
        response = self._post_until_answered(post)
        self._on_response(post, response)
        with self._condition:
            self._outbox.done()

    def _wait_for_slow_line(self, post: Post) -> None:
        delay_ms = self._delay_ms(post.records[0].made_ms)
        if delay_ms:
            self._stopping.wait(delay_ms / 1000)

    def _post_until_answered(self, post: Post) -> EdgeResponse:
        key = f"city-{self._settings.run}-{self.server}-{post.records[0].n}"
        headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": key}
        body, pause_s = post.body, FIRST_PAUSE_S
        while True:
            try:
                answer = self._connection.post(f"/v1/records/{post.kind}", body, headers)
                return msgspec.json.decode(answer, type=EdgeResponse)
            except (EdgeRefused, msgspec.DecodeError) as error:
                requested_s = error.retry_after_s if isinstance(error, EdgeRefused) else 0.0
                log.warning("server %s: %s; again in %.1f s", self.server, error, pause_s)
                time.sleep(max(pause_s, min(requested_s, LONGEST_PAUSE_S)))
                pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    def _post_counters(
        self, counters: list[Sent], on_acknowledged: Callable[[list[Sent]], None]
    ) -> None:
        """Counters that were not taken are due again at the next interval; the last ones have none,
        and are sent until they are accepted."""
        body = msgspec.json.encode(counters)
        try:
            self._connection.post("/v1/counters", body, {"Content-Type": "application/json"})
        except EdgeRefused as error:
            log.warning("server %s: counters not taken: %s", self.server, error)
            if self._stopping.is_set():
                with self._condition:
                    self._counters = self._counters or counters
                time.sleep(FIRST_PAUSE_S)
        else:
            on_acknowledged(counters)

"""Every refusal leaves a trace: a line in the log, a metric, a row by peer, and the beginning of
what could have been a record, in the quarantine.

In: refused requests. Out: metrics, rows, messages in the spool. Never: more lines, rows or bytes
than `refusals` allows; a second refusal because the spool is full.
"""

from __future__ import annotations

import logging
import os

from prometheus_client import CollectorRegistry, Counter

from bus.contracts import headers, topics
from bus.contracts.headers import Reason
from bus.domain.identity import uuid7
from bus.runtime import wall_clock
from ingest.edge.body_start import BodyStart
from ingest.edge.refusals import RefusalTable, RefusedRequest, RetainedBytes
from ingest.edge.responses import Problem
from ingest.spool import Spool, SpoolEntry, SpoolFull

log = logging.getLogger(__name__)

TALLY = "refused/accepted"
"""Of what is kept of refused requests. They have not arrived: no sum of records has them."""


class RefusalRecorder:
    """Of one edge; lives as long as its process."""

    def __init__(self, spool: Spool, site: str, registry: CollectorRegistry) -> None:
        self._spool, self._site = spool, site
        self._retained = RetainedBytes()
        self.table = RefusalTable()
        self.count = 0
        self.since_ms = wall_clock.now_ms()
        self._requests = Counter(
            "databus_edge_refused_requests",
            "Requests of which nothing was taken, by reason and by the maker that they look like.",
            ["reason", "maker"],
            registry=registry,
        )

    @property
    def retained(self) -> int:
        """Requests of which the beginning is kept, in the spool's whole life."""
        return self._spool.totals.get(TALLY, 0)

    def note(self, refusal: RefusedRequest, message: str) -> None:
        """Line, metric, row."""
        self._requests.labels(refusal.reason, refusal.maker).inc()
        self.count += 1
        if self.table.add(refusal, wall_clock.now_ms()):
            log.warning(
                "refused %s from %s: %s: %s (the same of this peer is told again in ten minutes)",
                refusal.request[:120].encode("unicode_escape").decode(),
                refusal.peer, refusal.reason, message[:300],
            )  # fmt: skip

    def on_connection(self, peer: str, problem: Problem) -> None:
        """What no route has seen: bytes that are no HTTP, a request that was not finished."""
        self.note(RefusedRequest(problem.error, "", peer, "-"), problem.message)

    async def keep(self, refusal: RefusedRequest, start: BodyStart) -> None:
        """The beginning of its body, where the bounds allow that. It is no record: it goes to the
        quarantine without a kind, so that it is in no account."""
        now_ms = wall_clock.now_ms()
        if not start.data or not self._retained.reserve(refusal.peer, len(start.data), now_ms):
            return
        try:
            await self._spool.append([self._entry(refusal, start, now_ms)])
        except SpoolFull:
            log.info("a refused request is not kept: the spool is full")

    def _entry(self, refusal: RefusedRequest, start: BodyStart, now_ms: int) -> SpoolEntry:
        schema = topics.TOPICS[topics.QUARANTINE_RECORDS].schema
        added = [
            (headers.RECORD_ID, uuid7(now_ms, os.urandom(10)).encode()),
            (headers.SCHEMA, schema.encode()),
            (headers.RECEIVED_AT, str(now_ms).encode()),
            (headers.SOURCE, refusal.peer.encode()),
            (headers.SITE, self._site.encode()),
            (headers.REASON, Reason.REFUSED.value.encode()),
            (headers.FIELD, " ".join(filter(None, (refusal.reason, refusal.maker))).encode()),
        ]
        if start.size > len(start.data):
            added.append((headers.TRUNCATED, str(start.size).encode()))
        return SpoolEntry(
            topic=topics.QUARANTINE_RECORDS, key=None, value=start.data, headers=added,
            timestamp_ms=now_ms, tally=TALLY,
        )  # fmt: skip

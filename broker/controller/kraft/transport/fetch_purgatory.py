"""Fetches of other replicas that wait at the leader for records or a higher watermark.

Every fetch is answered, at the latest when its wait ends, or with an error when this node no longer
leads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from broker.clock.port import Clock, TimerHandle, monotonic_ms
from broker.config.views import BrokerConfig
from broker.controller.kraft.raft.messages import Fetch, FetchResponse, Tick
from broker.controller.kraft.raft.raft import Raft
from broker.controller.kraft.storage.raft_log import RaftLog
from broker.log.errors import LogError

log = logging.getLogger("broker.controller")

MAX_WAITING_FETCHES = 2000
"""One per voter and observer is expected; further fetches are answered at once."""

MAX_WAIT_MS = 30_000
"""Upper bound of any wait, regardless of what a request asks for."""


@dataclass(slots=True)
class WaitingFetch:
    """One waiting fetch."""

    request: Fetch
    max_bytes: int
    reply: Callable[[FetchResponse], None]
    timer: TimerHandle | None = None


class FetchPurgatory:
    """Answers fetches, now or later."""

    def __init__(
        self,
        raft: Raft,
        log: RaftLog,
        clock: Clock,
        config: BrokerConfig,
        enqueue: Callable[[Callable[[Tick], None]], None],
    ) -> None:
        """`enqueue` runs a call between two events of the Raft core, never while changes of an
        event are not stored yet."""
        self._raft = raft
        self._log = log
        self._clock = clock
        self._config = config
        self._enqueue = enqueue
        self._waiting: dict[int, WaitingFetch] = {}
        self._next = 0
        self._seen: tuple[int, int, int, object] = (-1, -1, -1, None)

    def fetch(
        self, request: Fetch, max_bytes: int, now: Tick, reply: Callable[[FetchResponse], None]
    ) -> None:
        """Answers, or waits."""
        may_wait = request.max_wait_ms > 0 and len(self._waiting) < MAX_WAITING_FETCHES
        found = self._raft.on_fetch(request, now, may_wait=may_wait)
        if found is not None:
            reply(self._with_records(found, request, max_bytes))
            return
        number, self._next = self._next, self._next + 1
        waiting = self._waiting[number] = WaitingFetch(request, max_bytes, reply)
        wait_s = min(request.max_wait_ms, MAX_WAIT_MS) / 1000
        expire = partial(self._enqueue, lambda _: self._expire(number))
        waiting.timer = self._clock.call_later(wait_s, expire)

    def check_and_complete(self) -> None:
        """Answers the fetches that need not wait any longer, if anything changed."""
        raft = self._raft
        seen = (self._log.end.offset, raft.high_watermark, raft.epoch, raft.role)
        if seen == self._seen or not self._waiting:
            return
        self._seen = seen
        for number in list(self._waiting):
            self._try_complete(number, may_wait=True)

    def _expire(self, number: int) -> None:
        if number in self._waiting:
            self._try_complete(number, may_wait=False)

    def _try_complete(self, number: int, *, may_wait: bool) -> None:
        waiting = self._waiting.get(number)
        if waiting is None:
            return
        now = Tick(monotonic_ms(self._clock))
        found = self._raft.on_fetch(waiting.request, now, may_wait=may_wait, is_retry=True)
        if found is None:
            return
        del self._waiting[number]
        if waiting.timer is not None:
            waiting.timer.cancel()
        waiting.reply(self._with_records(found, waiting.request, waiting.max_bytes))

    def _with_records(
        self, response: FetchResponse, request: Fetch, max_bytes: int
    ) -> FetchResponse:
        if response.read_from is None:
            return response
        limit = min(max_bytes, self._config["controller.quorum.fetch.max.bytes"])
        # Consumers (replica id -1) see only committed records.
        upper = None if request.replica.id >= 0 else max(response.high_watermark, 0)
        try:
            records = self._log.read(response.read_from, max(limit, 1), upper)
        except LogError as error:
            log.error("the metadata log cannot be read for node %d: %s", request.replica.id, error)
            return replace(response, error=error.code, read_from=None)
        return replace(response, records=records)

    def clear(self) -> None:
        """Drops all fetches: the node stops."""
        for waiting in self._waiting.values():
            if waiting.timer is not None:
                waiting.timer.cancel()
        self._waiting.clear()

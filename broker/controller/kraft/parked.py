"""Fetches of other replicas that wait at the leader for records or a higher watermark.

In: fetches and how to answer them. Out: answers, at the latest when their wait is over. Never: a
fetch forgotten; when this node leads no longer all of them are told so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from broker.clock.port import Clock, TimerHandle, monotonic_ms
from broker.config.views import BrokerConfig
from broker.controller.kraft.machine import Machine
from broker.controller.kraft.messages import Fetch, FetchAnswer, Moment
from broker.controller.kraft.raft_log import RaftLog
from broker.log.errors import LogError

log = logging.getLogger("broker.controller")

MAX_PARKED = 2000
"""One per voter and observer is what is expected; those beyond are answered at once."""

MAX_WAIT_MS = 30_000
"""Whatever a stranger asks for: a wait is not for ever."""


@dataclass(slots=True)
class Parked:
    """One waiting fetch."""

    ask: Fetch
    max_bytes: int
    answer: Callable[[FetchAnswer], None]
    timer: TimerHandle | None = None


class ParkedFetches:
    """Answers fetches, now or later."""

    def __init__(
        self,
        machine: Machine,
        log: RaftLog,
        clock: Clock,
        config: BrokerConfig,
        event: Callable[[Callable[[Moment], None]], None],
    ) -> None:
        """`event`: has something done between two events of the machine, never while what one of
        them changed is not stored yet."""
        self._machine = machine
        self._log = log
        self._clock = clock
        self._config = config
        self._event = event
        self._waiting: dict[int, Parked] = {}
        self._next = 0
        self._seen: tuple[int, int, int, object] = (-1, -1, -1, None)

    def fetch(
        self, ask: Fetch, max_bytes: int, now: Moment, answer: Callable[[FetchAnswer], None]
    ) -> None:
        """Answer or wait."""
        may_wait = ask.max_wait_ms > 0 and len(self._waiting) < MAX_PARKED
        found = self._machine.on_fetch(ask, now, may_wait=may_wait)
        if found is not None:
            answer(self._with_records(found, ask, max_bytes))
            return
        number, self._next = self._next, self._next + 1
        parked = self._waiting[number] = Parked(ask, max_bytes, answer)
        wait_s = min(ask.max_wait_ms, MAX_WAIT_MS) / 1000
        expire = partial(self._event, lambda _: self._expire(number))
        parked.timer = self._clock.call_later(wait_s, expire)

    def wake(self) -> None:
        """Something may have changed: answer those who need not wait any more."""
        machine = self._machine
        seen = (self._log.end.offset, machine.high_watermark, machine.epoch, machine.role)
        if seen == self._seen or not self._waiting:
            return
        self._seen = seen
        for number in list(self._waiting):
            self._try(number, may_wait=True)

    def _expire(self, number: int) -> None:
        if number in self._waiting:
            self._try(number, may_wait=False)

    def _try(self, number: int, *, may_wait: bool) -> None:
        parked = self._waiting.get(number)
        if parked is None:
            return
        now = Moment(monotonic_ms(self._clock))
        found = self._machine.on_fetch(parked.ask, now, may_wait=may_wait, again=True)
        if found is None:
            return
        del self._waiting[number]
        if parked.timer is not None:
            parked.timer.cancel()
        parked.answer(self._with_records(found, parked.ask, parked.max_bytes))

    def _with_records(self, answer: FetchAnswer, ask: Fetch, max_bytes: int) -> FetchAnswer:
        if answer.read_from is None:
            return answer
        limit = min(max_bytes, self._config["controller.quorum.fetch.max.bytes"])
        # Consumers (replica id -1) see only what is committed.
        upper = None if ask.replica.id >= 0 else max(answer.high_watermark, 0)
        try:
            records = self._log.read(answer.read_from, max(limit, 1), upper)
        except LogError as error:
            log.error("the metadata log cannot be read for node %d: %s", ask.replica.id, error)
            return replace(answer, error=error.code, read_from=None)
        return replace(answer, records=records)

    def drop(self) -> None:
        """The node stops: nobody is answered any more."""
        for parked in self._waiting.values():
            if parked.timer is not None:
                parked.timer.cancel()
        self._waiting.clear()

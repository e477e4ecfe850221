"""For senders that keep what is not acknowledged: says when the other one of two sites takes over.

In: both sites' brokers, how many records were acknowledged and how many wait. Out: a call with the
bus that is to be sent to from now on. Never: a move because one site is silent: the other must say
that its topics are mirrors no longer, which is what a person's switch does there.

A sender without a spool keeps what its site has not acknowledged; what that site alone had is lost
with it. Who shall lose nothing sends through an edge.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from typing import NamedTuple

from bus.client.kafka.mirrored_ends import cluster_id_of, mirrored_ends
from bus.errors import BusError
from bus.runtime.periodic_thread import PeriodicThread
from bus.settings import BusSettings

log = logging.getLogger(__name__)

CLIENT_ID = "databus-site-follower"
POLL_S = 0.5
AGAIN_S = 5.0
TIMEOUT_S = 5.0
MOVE_AFTER_S = 2.0


class SendProgress(NamedTuple):
    """Of a sender: records acknowledged so far, and records that wait."""

    acknowledged: int
    waiting: int


class SiteFollower(PeriodicThread):
    """Invariant: `active` is the bus that was told last."""

    def __init__(
        self,
        home: BusSettings,
        second: BusSettings,
        topics: Collection[str],
        progress: Callable[[], SendProgress],
        on_move: Callable[[BusSettings], None],
        *,
        move_after_s: float = MOVE_AFTER_S,
    ) -> None:
        """`topics` that are sent to; `progress` and `on_move` are called in the thread."""
        super().__init__("site-follower", every_s=POLL_S)
        self.active, self._other = home, second
        self._topics = frozenset(topics)
        self._progress, self._on_move = progress, on_move
        self._move_after_s = move_after_s
        self._cluster_ids: dict[str, str] = {}
        self._last = SendProgress(-1, 0)
        self._since_s = time.monotonic()
        self._asked_s: dict[str, float] = {}

    def _step(self) -> None:
        try:
            self._learn_cluster_ids()
            self._follow()
        except BusError as error:
            log.info("a site does not answer, it is asked again: %s", error)

    def _learn_cluster_ids(self) -> None:
        """Of a site that dies later its id must be known."""
        for bus in (self.active, self._other):
            name, now_s = bus.bootstrap_servers, time.monotonic()
            is_due = now_s - self._asked_s.get(name, -AGAIN_S) >= AGAIN_S
            if name in self._cluster_ids or not is_due:
                continue
            self._asked_s[name] = now_s
            self._cluster_ids[name] = cluster_id_of(bus, client_id=CLIENT_ID, timeout_s=TIMEOUT_S)

    def _follow(self) -> None:
        now, now_s = self._progress(), time.monotonic()
        if not now.waiting or now.acknowledged != self._last.acknowledged:
            self._last, self._since_s = now, now_s
            return
        source = self._cluster_ids.get(self.active.bootstrap_servers, "")
        if now_s - self._since_s < self._move_after_s or not source:
            return
        self._since_s = now_s
        if mirrored_ends(self._other, source).is_taken_over(self._topics):
            self.active, self._other = self._other, self.active
            log.warning("records go to the other site: %s", self.active.bootstrap_servers)
            self._on_move(self.active)

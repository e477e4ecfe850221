"""The edge's eye on both sites: what the mirror has confirmed, and which site takes records.

In: `control.mirror-confirmed` of the site that is sent to, orders, the spool's progress. Out: the
spool releases what the second site has; a move, where that site has taken over.
Never: a move because one site is silent: the other must say that its topics are mirrors no longer,
which is what a person's switch does there.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from bus.client.kafka.admin import Admin
from bus.client.kafka.consumer import Consumer
from bus.client.kafka.mirrored_ends import CONFIRMED, NEWEST_RECORDS, cluster_id_of, is_between
from bus.client.kafka.topic_follower import TopicFollower, refreshed_follower
from bus.contracts.mirror import decode_confirmed
from bus.errors import BusError
from ingest.edge.sites.other_site import NO_EDGE, SENT_TO, SecondEdge, ask_ends
from ingest.edge.sites.site_route import HOME, SECOND, Site, SiteRoute
from ingest.spool import Place, Spool

log = logging.getLogger(__name__)

CLIENT_ID = "databus-edge-confirmed"
POLL_S = 0.5
POLL_RECORDS = 5_000
TIMEOUT_S = 5.0
AGAIN_S = 5.0
"""Between two questions to brokers that did not answer."""


class SecondSite:
    """One thread. Invariant: `_consumer` reads of the site `_reading_at`, whose topics `_topics`
    follows."""

    def __init__(
        self, spool: Spool, route: SiteRoute, edge: SecondEdge = NO_EDGE, *, move_after_s: float
    ) -> None:
        """`edge` is one at the second site; `move_after_s` 0: moves only on orders."""
        self._spool = spool
        self._route = route
        self._edge = edge
        self._move_after_s = move_after_s
        self._consumer: Consumer | None = None
        self._topics: TopicFollower | None = None
        self._renewed: Callable[[], frozenset[str]] = frozenset
        self._reading_at: Site = route.active
        self._not_before_s: dict[str, float] = {}
        self._progress: tuple[int, int] = (-1, -1)
        self._progress_s = time.monotonic()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="second-site", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._route.read_order()
                self._attempt(self._follow)
                self._attempt(self._learn_cluster_ids)
                if not self._attempt(self._confirm):
                    self._close_consumer()
            except OSError as error:
                log.error("the state of the two sites cannot be kept, again soon: %s", error)
                self._stopping.wait(AGAIN_S)
        self._close_consumer()

    def _attempt(self, step: Callable[[], None]) -> bool:
        """Whether the site that it asks has answered."""
        try:
            step()
        except BusError as error:
            log.info("a site does not answer, it is asked again: %s", error)
            self._stopping.wait(POLL_S)
            return False
        return True

    def _is_time_for(self, what: str) -> bool:
        now_s = time.monotonic()
        if now_s < self._not_before_s.get(what, 0.0):
            return False
        self._not_before_s[what] = now_s + AGAIN_S
        return True

    def _learn_cluster_ids(self) -> None:
        for site in (HOME, SECOND):
            if not self._route.cluster_id(site) and self._is_time_for(f"id of {site}"):
                bus = self._route.bus(site)
                found = cluster_id_of(bus, client_id=CLIENT_ID, timeout_s=TIMEOUT_S)
                self._route.on_cluster_id(site, found)

    # -- what the mirror says -----------------------------------------------------------------

    def _confirm(self) -> None:
        """Read what is new; it also makes the pause of a round."""
        if self._reading_at != self._route.active:
            self._close_consumer()
            self._reading_at = self._route.active
        if self._consumer is None:
            if self._is_time_for("consumer"):
                self._open_consumer()
            else:
                self._stopping.wait(POLL_S)
            return
        if self._renewed():
            log.warning("%s was made anew: read from its start", CONFIRMED.topic)
            self._close_consumer()
            self._not_before_s.pop("consumer")
            return
        source = self._route.cluster_id(self._route.active)
        target = self._route.cluster_id(self._route.other)
        confirmed: dict[Place, int] = {}
        for record in self._consumer.poll(POLL_RECORDS, POLL_S):
            confirmation = decode_confirmed(record.value)
            if confirmation is not None and target and is_between(confirmation, source, target):
                confirmed[confirmation.topic, confirmation.partition] = confirmation.offset
        if confirmed and self._reading_at == self._route.active:
            self._spool.confirm(confirmed)

    def _open_consumer(self) -> None:
        """From a little before the end: the mirror says everything once a minute."""
        bus = self._route.bus(self._reading_at)
        topics = refreshed_follower(bus, [CONFIRMED.topic])
        consumer = Consumer(bus, client_id=CLIENT_ID, timeout_s=TIMEOUT_S)
        try:
            if CONFIRMED not in consumer.partitions_of_all([CONFIRMED.topic]):
                consumer.close()
                topics.close()
                return
            first, end = consumer.bounds(CONFIRMED)
            consumer.assign({CONFIRMED: max(first, end - NEWEST_RECORDS)})
        except BusError:
            consumer.close()
            topics.close()
            raise
        self._consumer, self._topics, self._renewed = consumer, topics, topics.renewals()

    def _close_consumer(self) -> None:
        if self._topics is not None:
            self._topics.close()
            self._topics = None
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    # -- moving by itself ---------------------------------------------------------------------

    def _follow(self) -> None:
        """Where records or confirmations stand still for long, ask whether the other site has
        taken over."""
        spool, now_s = self._spool, time.monotonic()
        waiting = spool.end_sequence - spool.drained_sequence
        progress = (spool.drained_sequence, 0 if waiting else spool.retained_messages)
        is_well = not waiting and not spool.retained_messages
        if is_well or progress != self._progress or self._route.moving_to is not None:
            self._progress, self._progress_s = progress, now_s
            return
        if not self._move_after_s or now_s - self._progress_s < self._move_after_s:
            return
        self._progress_s = now_s
        if not waiting and self._answers(self._route.active):
            return  # nothing is refused there; only the mirror stands
        other = self._route.other
        if ask_ends(self._route, other, self._edge).is_taken_over(SENT_TO):
            self._route.order(other, f"{self._route.active} takes nothing, {other} has taken over")

    def _answers(self, site: Site) -> bool:
        admin = Admin(self._route.bus(site), client_id=CLIENT_ID, timeout_s=TIMEOUT_S)
        try:
            admin.wait_until_up(TIMEOUT_S)
        except BusError:
            return False
        finally:
            admin.close()
        return True

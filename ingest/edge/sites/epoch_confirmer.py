"""Tells each of both sites what the other one's site epoch means for it, as the mirror does.

In: the route, both clusters' keys. Out: confirmations, and fences of a former primary. Core:
`bus.domain.site_epochs`. Never: a word from an answer that is not the newest, to brokers that are
not ours, or, before the first site epoch, where the other site holds no mirror of this one.

A site whose brokers were all down asks whether it is the primary still. The mirror answers within
seconds; where it is away, edges that reach both sites do.
"""

from __future__ import annotations

import logging
import time

from bus.client.admin import queries, site_keys
from bus.client.admin.config_resources import TOPIC
from bus.client.admin.own_name import own_name
from bus.client.wire.sync_client import SyncClient
from bus.contracts.mirror import SOURCE_CLUSTER_KEY
from bus.contracts.site_confirmation import ConfirmedBy
from bus.domain.site_epochs import (
    Confirm,
    FormerPrimaryFence,
    SiteClusters,
    SiteEpochs,
    due_confirmations,
)
from bus.errors import BusError, ErrorCode
from bus.runtime.periodic_thread import PeriodicThread
from ingest.edge.sites.other_site import SENT_TO
from ingest.edge.sites.site_route import HOME, SECOND, SiteRoute

log = logging.getLogger(__name__)

CLIENT_ID = "databus-edge-confirmer"
EVERY_S = 2.0
FRESH_S = 2.0
"""Answers that took longer than this together may be too old to tell the other site."""
CONNECT_TIMEOUT_MS = 1_000
REQUEST_TIMEOUT_MS = 3_000
REASON = "an edge asked both sites: none has a newer site epoch"


class EpochConfirmer(PeriodicThread):
    """Repeating what was told is harmless."""

    def __init__(self, route: SiteRoute) -> None:
        super().__init__("epoch-confirmer", every_s=EVERY_S)
        self._clients = tuple(
            SyncClient.of(
                route.bus(site), CLIENT_ID, connect_timeout_ms=CONNECT_TIMEOUT_MS,
                request_timeout_ms=REQUEST_TIMEOUT_MS,
            )
            for site in (HOME, SECOND)
        )  # fmt: skip
        self._are_ours = False
        self._failure = ""

    def _step(self) -> None:
        try:
            self._confirm_due()
            self._failure = ""
        except BusError as error:
            self._on_error(error)

    def _run(self) -> None:
        super()._run()
        for client in self._clients:
            client.close()

    def _confirm_due(self) -> None:
        """Raises BusError."""
        begun = time.monotonic()
        clusters = [queries.cluster(client) for client in self._clients]
        held = [site_keys.read(client) for client in self._clients]
        if time.monotonic() - begun > FRESH_S:
            return
        ids = SiteClusters(*(each.cluster_id for each in clusters))
        epochs = SiteEpochs(ids, *(keys.epoch for keys in held))
        waiting = {
            cluster.cluster_id
            for cluster, keys in zip(clusters, held, strict=True)
            if not keys.confirms(cluster.alive)
        }
        for one in due_confirmations(epochs):
            is_wanted = isinstance(one, FormerPrimaryFence) or one.cluster_id in waiting
            if is_wanted and self._may_confirm(epochs):
                self._confirm(ids, one)

    def _may_confirm(self, epochs: SiteEpochs) -> bool:
        if not self._are_ours:
            self._are_ours = all(
                site_keys.site_number(client) is not None for client in self._clients
            )
        return self._are_ours and (epochs.newest is not None or self._is_copied(epochs))

    def _is_copied(self, epochs: SiteEpochs) -> bool:
        """Whether the second site holds a mirror of home: else nobody said which one is primary."""
        second = self._clients[1]
        there = {topic.name for topic in queries.topics(second)}
        return any(
            entry.name == SOURCE_CLUSTER_KEY and entry.value == epochs.clusters.source
            for name in sorted(SENT_TO & there)
            for entry in queries.configs(second, TOPIC, name)
        )

    def _confirm(self, ids: SiteClusters, one: Confirm | FormerPrimaryFence) -> None:
        client = self._clients[0 if one.cluster_id == ids.source else 1]
        site_keys.confirm_or_fence(client, one, ConfirmedBy.EDGE, own_name(), REASON)
        if isinstance(one, Confirm):
            log.warning(
                "cluster %s is confirmed as the primary: both sites were asked", one.cluster_id
            )

    def _on_error(self, error: BusError) -> None:
        is_overtaken = error.code is ErrorCode.INVALID_UPDATE_VERSION  # by a switch
        is_news = str(error) != self._failure and not error.retriable and not is_overtaken
        log.log(logging.INFO if is_news else logging.DEBUG,
                "no site is confirmed just now: %s", error)  # fmt: skip
        self._failure = str(error)

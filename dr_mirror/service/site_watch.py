"""Watches the site epochs of both clusters: a mirror copies from the primary, never into it.

In: the settings of the role. Out: `SiteEpochs` as they are, and when another mirror is due; each
cluster is told what the other one's epoch means for it (`site_confirmer`). Core:
`bus.domain.site_epochs`. Never: a word to either from an answer that is not the newest.
"""

from __future__ import annotations

import asyncio
import logging
import time

import msgspec

from bus.client.admin.cluster_admin import ClusterAdmin
from bus.client.admin.site_keys import SiteKeys
from bus.contracts.mirror_status import SiteConfirmed
from bus.contracts.site_epoch import EpochKind
from bus.domain.site_epochs import SiteClusters, SiteEpochs
from bus.errors import BusError
from dr_mirror.service.site_confirmer import SiteConfirmer
from dr_mirror.settings import MirrorSettings

log = logging.getLogger(__name__)

CLIENT_ID = "databus-mirror-watch"
EVERY_S = 1.0
FRESH_S = 2.0
"""Of two answers that took longer than this together, one may be too old to tell the other."""


class SiteWatch:
    """Invariant: the epochs are the newest that each cluster has answered with."""

    def __init__(self, settings: MirrorSettings) -> None:
        self._admins = (
            ClusterAdmin(settings.source_bus, CLIENT_ID),
            ClusterAdmin(settings.target_bus, CLIENT_ID),
        )
        self._ids = ["", ""]
        self._keys = [SiteKeys(), SiteKeys()]
        self._confirmer: SiteConfirmer | None = None
        self._confirms = settings.target_api == "mirror_append"

    @property
    def epochs(self) -> SiteEpochs:
        """In the order of the settings."""
        return SiteEpochs(SiteClusters(*self._ids), *(keys.epoch for keys in self._keys))

    @property
    def confirmed(self) -> tuple[SiteConfirmed, ...]:
        """Who confirmed each cluster last."""
        return tuple(
            SiteConfirmed(
                cluster_id=cluster_id, epoch=found.epoch, by=found.by.value, at_ms=found.at_ms,
                who=found.who, reason=found.reason,
            )
            for cluster_id, keys in zip(self._ids, self._keys, strict=True)
            if (found := keys.confirmation) is not None
        )  # fmt: skip

    def fenced_ms(self, cluster_id: str) -> int | None:
        """Since when that cluster holds a site epoch that calls the other one primary; None: it
        does not. Any thread."""
        held = self.epochs.of(cluster_id)
        return None if held is None or held.primary == cluster_id else held.at_ms

    async def identify(self) -> SiteEpochs:
        """Ask both. Raises BusError while one does not answer."""
        for number, admin in enumerate(self._admins):
            self._ids[number] = await asyncio.to_thread(admin.cluster_id)
            self._keys[number] = await asyncio.to_thread(admin.site_keys)
        if self._confirms:
            self._confirmer = SiteConfirmer(dict(zip(self._ids, self._admins, strict=True)))
        return self.epochs

    async def wait_for_switch(self, before: SiteEpochs) -> None:
        """Return once another cluster is to be copied from, or a former primary has rejoined."""
        while True:
            await asyncio.sleep(EVERY_S)
            begun = time.monotonic()
            answered = await asyncio.gather(self._ask(0), self._ask(1))
            is_fresh = all(answered) and time.monotonic() - begun < FRESH_S
            if is_fresh and self._confirmer is not None:
                await self._confirmer.apply(self.epochs)
            if needs_new_mirror(before, self.epochs):
                return

    async def _ask(self, number: int) -> bool:
        try:
            self._keys[number] = await asyncio.to_thread(self._admins[number].site_keys)
        except BusError as error:
            log.debug("the site epoch is not known for now: %s", error)
            return False
        return True

    def close(self) -> None:
        """Close the connections."""
        for admin in self._admins:
            admin.close()


def needs_new_mirror(before: SiteEpochs, now: SiteEpochs) -> bool:
    """Whether a mirror that began under `before` has to begin again."""
    if now.copied_from != before.copied_from:
        return True
    newest = now.of(now.copied_from)
    is_newer = newest is not None and newest != before.of(now.copied_from)
    return is_newer and newest is not None and newest.kind is EpochKind.REJOINED


def waits_for_rejoin(epochs: SiteEpochs) -> bool:
    """Whether nothing may be copied: after a forced switch the former primary may hold records of
    its own, which a copy would follow on."""
    newest = epochs.of(epochs.copied_from)
    return newest is not None and newest.kind is EpochKind.FORCED


def directed(
    settings: MirrorSettings, clusters: SiteClusters, source: str
) -> MirrorSettings:
    """The settings with that cluster as the source."""
    if source == clusters.source:
        return settings
    return msgspec.structs.replace(
        settings,
        source_bootstrap_servers=settings.target_bootstrap_servers,
        target_bootstrap_servers=settings.source_bootstrap_servers,
        source_librdkafka=settings.target_librdkafka,
        target_librdkafka=settings.source_librdkafka,
        source_pictures_url=settings.target_pictures_url,
        target_pictures_url=settings.source_pictures_url,
    )

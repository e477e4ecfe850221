"""Watches the site epochs of both clusters: a mirror copies from the primary, never into it.

In: the settings of the role. Out: `SiteEpochs` as they are, and when another mirror is due. Core:
`dr_mirror.plan.site_epoch`. Never: a change at either cluster.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec

from bus.contracts.site_epoch import EpochKind, SiteEpoch
from bus.errors import BusError
from dr_mirror.copy.cluster_admin import ClusterAdmin
from dr_mirror.plan.site_epoch import SiteClusters, SiteEpochs
from dr_mirror.settings import MirrorSettings

log = logging.getLogger(__name__)

CLIENT_ID = "databus-mirror-watch"
EVERY_S = 1.0


class SiteWatch:
    """Invariant: the epochs are the newest that each cluster has answered with."""

    def __init__(self, settings: MirrorSettings) -> None:
        self._admins = (
            ClusterAdmin(settings.source_bootstrap_servers, CLIENT_ID),
            ClusterAdmin(settings.target_bootstrap_servers, CLIENT_ID),
        )
        self._ids = ["", ""]
        self._epochs: list[SiteEpoch | None] = [None, None]

    @property
    def epochs(self) -> SiteEpochs:
        """In the order of the settings."""
        return SiteEpochs(SiteClusters(*self._ids), *self._epochs)

    def fenced_ms(self, cluster_id: str) -> int | None:
        """Since when that cluster holds a site epoch that calls the other one primary; None: it
        does not. Any thread."""
        held = self.epochs.of(cluster_id)
        return None if held is None or held.primary == cluster_id else held.at_ms

    async def identify(self) -> SiteEpochs:
        """Ask both. Raises BusError while one does not answer."""
        for number, admin in enumerate(self._admins):
            self._ids[number] = await asyncio.to_thread(admin.cluster_id)
            self._epochs[number] = await asyncio.to_thread(admin.site_epoch)
        return self.epochs

    async def wait_for_switch(self, before: SiteEpochs) -> None:
        """Return once another cluster is to be copied from, or a former primary has rejoined."""
        while True:
            await asyncio.sleep(EVERY_S)
            await asyncio.gather(self._ask(0), self._ask(1))
            if needs_new_mirror(before, self.epochs):
                return

    async def _ask(self, number: int) -> None:
        try:
            self._epochs[number] = await asyncio.to_thread(self._admins[number].site_epoch)
        except BusError as error:
            log.debug("the site epoch is not known for now: %s", error)

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


def directed(settings: MirrorSettings, epochs: SiteEpochs) -> MirrorSettings:
    """The settings with the primary as the source."""
    if epochs.copied_from == epochs.clusters.source:
        return settings
    return msgspec.structs.replace(
        settings,
        source_bootstrap_servers=settings.target_bootstrap_servers,
        target_bootstrap_servers=settings.source_bootstrap_servers,
    )

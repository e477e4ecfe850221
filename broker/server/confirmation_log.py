"""Says in the log, and by a gauge, while topics here take no records: nobody has confirmed the
site epoch.

In: metadata changes. Out: a line for each reason, one at the end of such a time. Core:
`broker.controller.decisions.site_confirmations`. Never: a decision.
"""

from __future__ import annotations

import logging

from broker.controller.decisions.site_confirmations import is_closed, is_copied_out, members
from broker.controller.decisions.site_epochs import ALL_BROKERS, site_epoch
from broker.metadata.delta import Changes
from broker.metadata.image import MetadataImage, ResourceType
from broker.metrics.registry import Metrics
from bus.contracts.site_confirmation import SITE_CONFIRMATION_KEY

log = logging.getLogger("broker.server")


class ConfirmationLog:
    """Invariant: `closed` is how many topics that are copied out this process would not take
    records of, by the newest image."""

    def __init__(self, incarnation_id: bytes, metrics: Metrics) -> None:
        self._incarnation_id = incarnation_id
        self.closed = 0
        self._reason = ""
        metrics.gauge("ReplicaManager", "UnconfirmedTopics", lambda: self.closed)

    def __call__(self, changes: Changes) -> None:
        """Count anew where a configuration has changed."""
        if not changes.changed_configs:
            return
        self.closed = self._count(changes.image)
        before, self._reason = self._reason, _reason(changes.image) if self.closed else ""
        if self._reason and self._reason != before:
            log.warning(
                "%d topics that are copied to another site take no records here: %s",
                self.closed, self._reason,
            )  # fmt: skip
        elif before and not self._reason:
            held = changes.image.configs.get((ResourceType.BROKER, ALL_BROKERS), {})
            log.info("the topics that are copied to another site take records: %s",
                     held.get(SITE_CONFIRMATION_KEY, "none is left"))  # fmt: skip

    def _count(self, image: MetadataImage) -> int:
        if members(image) is None:
            return 0
        return sum(
            is_copied_out(image, name) and is_closed(image, name, self._incarnation_id)
            for name in image.topics
        )


def _reason(image: MetadataImage) -> str:
    epoch = site_epoch(image)
    if epoch is not None and epoch.secondary == image.cluster_id:
        return f"this cluster is the secondary since site epoch {epoch.number} ({epoch.who})"
    return (
        f"this broker has started, and nobody has confirmed yet that site epoch "
        f"{0 if epoch is None else epoch.number} is the newest; a running mirror does so by itself "
        "within seconds where it reaches both sites, see `databus mirror primary`"
    )

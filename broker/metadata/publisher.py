"""Telling the rooms of a broker what changed in the metadata, in an order they can live with.

In: `Changes`. Out: calls of subscribers. Never: what a room does with them; nor a process ended
because one of them stumbled over a committed record, which would come again at every start: that
is logged with its trace and counted (Kafka's metadata-apply-error-count), the others hear it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.metadata.delta import Changes

log = logging.getLogger("broker.metadata")

Subscriber = Callable[[Changes], None]


class Publisher:
    """Subscribers in the order in which they hear of a change: replicas first, then what reads
    them."""

    def __init__(self) -> None:
        self._subscribers: list[Subscriber] = []
        self.errors = 0

    def subscribe(self, subscriber: Subscriber) -> None:
        """Hear of every change from now on."""
        self._subscribers.append(subscriber)

    def publish(self, changes: Changes) -> None:
        """Tell everybody."""
        for subscriber in self._subscribers:
            try:
                subscriber(changes)
            except Exception:
                self.failed("a change up to offset %d", changes.image.offset)

    def failed(self, what: str, *values: object) -> None:
        """Part of a change could not be applied; called while its exception is handled."""
        self.errors += 1
        log.exception(f"metadata is not applied: {what}", *values)

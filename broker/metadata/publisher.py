"""Publishes metadata changes to the broker's subscribers in a fixed order.

A subscriber that fails on a committed record does not end the process, because the record would
recur at every start: the failure is logged with its trace and counted (Kafka's
metadata-apply-error-count), and the other subscribers are called.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.metadata.delta import Changes

log = logging.getLogger("broker.metadata")

Subscriber = Callable[[Changes], None]


class Publisher:
    """Subscribers in the order in which they are called: replicas first, then what reads them."""

    def __init__(self) -> None:
        self._subscribers: list[Subscriber] = []
        self.errors = 0

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber` with every change from now on."""
        self._subscribers.append(subscriber)

    def publish(self, changes: Changes) -> None:
        """Call all subscribers."""
        for subscriber in self._subscribers:
            try:
                subscriber(changes)
            except Exception:
                self.on_apply_error("a change up to offset %d", changes.image.offset)

    def on_apply_error(self, what: str, *values: object) -> None:
        """Part of a change could not be applied; called while its exception is handled."""
        self.errors += 1
        log.exception(f"metadata is not applied: {what}", *values)

"""Telling the rooms of a broker what changed in the metadata, in an order they can live with.

In: `Changes`. Out: calls of subscribers. Never: what a room does with them.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.metadata.delta import Changes

Subscriber = Callable[[Changes], None]


class Publisher:
    """Subscribers in the order in which they hear of a change: replicas first, then what reads
    them."""

    def __init__(self) -> None:
        self._subscribers: list[Subscriber] = []

    def subscribe(self, subscriber: Subscriber) -> None:
        """Hear of every change from now on."""
        self._subscribers.append(subscriber)

    def publish(self, changes: Changes) -> None:
        """Tell everybody."""
        for subscriber in self._subscribers:
            subscriber(changes)

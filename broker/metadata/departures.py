"""Brokers that are just going: what clients are told of the cluster in that moment.

In: connections that were lost, changes of the metadata. Out: whether an answer about the cluster
should wait a moment, and which brokers it lists. Never: who is alive; the controller decides that.

A client whose leader dies asks for metadata at once, a millisecond before the controller has
fenced the dead one, and asks again only a second later. So such an answer waits for the news, which
is on its way when this broker has itself just lost its connection to a leader. And it lists a
fenced broker for some seconds more: librdkafka loses a partition for a second if its old leader
disappears from the list in the same answer that names the new one.

A broker that has just started may not have heard yet of anybody, itself included: under ZooKeeper
it must listen before the controller can tell it anything, and where the whole cluster starts all
are fenced at first. A client must not be told of a cluster without brokers (librdkafka gives up
every broker it knew, and never finds one again), so that answer waits too.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.clock.port import Clock, TimerHandle
from broker.metadata.delta import Changes
from broker.metadata.image import BrokerImage, MetadataImage

HOLD_S = 0.1
"""How long an answer waits at most: the controller needs some milliseconds after a kill."""

NOBODY_S = 20.0
"""How long an answer waits for the first broker in service: a ZooKeeper controller that died is
replaced when its session of 18 s by default has ended, an election of a quorum takes less than two
seconds; the clients' own limits are 30 s and more."""

SHOWN_S = 5.0
"""How long a fenced broker is still listed: clients have asked again by then."""

MAX_HELD = 1024
"""Answers that wait; others are given as things stand."""


class Departures:
    """One broker's view of those that go.

    Invariant: every held answer is released once, by the news or by its timer.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lost: dict[int, float] = {}
        self._fenced: dict[int, float] = {}
        self._held: list[Callable[[], None]] = []
        self._timer: TimerHandle | None = None

    def connection_lost(self, broker_id: int) -> None:
        """The other side ended a connection of ours."""
        self._lost[broker_id] = self._clock.monotonic()

    def __call__(self, changes: Changes) -> None:
        """Hear of changes, after the rooms that act on them."""
        now = self._clock.monotonic()
        for broker_id in changes.changed_brokers:
            before = changes.previous.brokers.get(broker_id)
            after = changes.image.brokers.get(broker_id)
            if after is None or not after.fenced:
                self._fenced.pop(broker_id, None)
            elif before is not None and not before.fenced:
                self._fenced[broker_id] = now
        if not self._awaited(changes.image):
            self._release()

    def hold(self, image: MetadataImage, answer: Callable[[], None]) -> bool:
        """Whether `answer` is called later because news is on its way."""
        if len(self._held) >= MAX_HELD or not self._awaited(image):
            return False
        self._held.append(answer)
        if self._timer is None:
            limit = HOLD_S if _anybody(image) else NOBODY_S
            self._timer = self._clock.call_later(limit, self._release)
        return True

    def shown(self, image: MetadataImage) -> list[BrokerImage]:
        """Brokers to list: those in service and those that were a moment ago."""
        if not self._fenced:
            return image.alive_brokers()
        since = self._clock.monotonic() - SHOWN_S
        self._fenced = {one: when for one, when in self._fenced.items() if when > since}
        return [
            broker
            for broker_id, broker in sorted(image.brokers.items())
            if not broker.fenced or broker_id in self._fenced
        ]

    def _awaited(self, image: MetadataImage) -> bool:
        """Whether the controller has not yet said what became of a broker we lost just now, or
        who there is at all."""
        if not self._lost:
            return not _anybody(image)
        since = self._clock.monotonic() - HOLD_S
        self._lost = {one: when for one, when in self._lost.items() if when > since}
        brokers = image.brokers
        if any(one in brokers and not brokers[one].fenced for one in self._lost):
            return True
        return not _anybody(image)

    def _release(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        held, self._held = self._held, []
        for answer in held:
            answer()


def _anybody(image: MetadataImage) -> bool:
    """Whether any broker is in service; the first one looked at is, as a rule."""
    return any(not broker.fenced for broker in image.brokers.values())

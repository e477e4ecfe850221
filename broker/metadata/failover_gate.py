"""Delays Metadata responses during a failover. Pure.

In: lost and new connections, changes of the metadata. Out: whether a Metadata response should wait
a moment, and which brokers it lists. Never: which broker is alive; the controller decides that.

A client whose leader dies asks for metadata at once, a millisecond before the controller has fenced
the dead broker, and asks again only a second later; Java's administration, told of the dead leader
once more, waits for that one until it is back. So if this broker has just lost its own connection
to a leader, and has not got a new one, the response waits for the new metadata, which are on their
way. And it
lists a fenced broker for some seconds longer: librdkafka loses a partition for a second if its old
leader disappears from the list in the same response that names the new one. Java's clients are not
told of it, as by Apache Kafka: its administration asks for a partition's new leader only when the
old one is no longer listed, and connects to that one until then.

A broker that has just started may not know any broker yet, not even itself: under ZooKeeper it must
listen before the controller can send it metadata, and when the whole cluster starts all brokers are
fenced at first. A response without brokers must never be sent (librdkafka drops every broker it
knew, and never finds one again), so it waits too.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.clock.port import Clock, TimerHandle
from broker.metadata.delta import Changes
from broker.metadata.image import BrokerImage, MetadataImage

DELAY_S = 0.5
"""How long a response waits at most: the controller needs some milliseconds after a kill, on a busy
machine some tenths of a second."""

NO_BROKERS_DELAY_S = 20.0
"""How long a response waits for the first unfenced broker: a ZooKeeper controller that died is
replaced when its session of 18 s by default has ended, an election of a quorum takes less than two
seconds; the clients' own limits are 30 s and more."""

JAVA_CLIENT = "apache-kafka-java"
"""How Java's clients name themselves in ApiVersions."""

VISIBLE_S = 5.0
"""How long a fenced broker is still listed: clients have refreshed their metadata by then."""

MAX_DELAYED = 1024
"""Responses that may wait; further ones are sent at once."""


class FailoverGate:
    """One broker's view of failing brokers.

    Invariant: every delayed response is released once, by new metadata or by the timer.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._disconnected: dict[int, float] = {}
        self._fenced: dict[int, float] = {}
        self._delayed: list[Callable[[], None]] = []
        self._delayed_for: MetadataImage | None = None  # the newest that an answer was asked of
        self._timer: TimerHandle | None = None

    def on_disconnect(self, broker_id: int) -> None:
        """The other broker closed a connection of ours."""
        self._disconnected[broker_id] = self._clock.monotonic()

    def on_connect(self, broker_id: int) -> None:
        """The other broker has taken a connection of ours: it is alive, nothing is due."""
        if self._disconnected.pop(broker_id, None) is None or self._delayed_for is None:
            return
        if not self._awaits_news(self._delayed_for):
            self._release()

    def __call__(self, changes: Changes) -> None:
        """Handle changes, after the subscribers that apply them."""
        now = self._clock.monotonic()
        for broker_id in changes.changed_brokers:
            before = changes.previous.brokers.get(broker_id)
            after = changes.image.brokers.get(broker_id)
            if after is None or not after.fenced:
                self._fenced.pop(broker_id, None)
            elif before is not None and not before.fenced:
                self._fenced[broker_id] = now
        if not self._awaits_news(changes.image):
            self._release()

    def delay(self, image: MetadataImage, answer: Callable[[], None]) -> bool:
        """Whether `answer` is called later because new metadata are on their way."""
        if len(self._delayed) >= MAX_DELAYED or not self._awaits_news(image):
            return False
        self._delayed.append(answer)
        self._delayed_for = image
        if self._timer is None:
            limit = DELAY_S if _any_in_service(image) else NO_BROKERS_DELAY_S
            self._timer = self._clock.call_later(limit, self._release)
        return True

    def visible_brokers(self, image: MetadataImage, software_name: str) -> list[BrokerImage]:
        """Brokers to list: unfenced ones; for clients other than Java's, those fenced within
        `VISIBLE_S`, too."""
        if not self._fenced or software_name == JAVA_CLIENT:
            return image.alive_brokers()
        since = self._clock.monotonic() - VISIBLE_S
        self._fenced = {one: when for one, when in self._fenced.items() if when > since}
        return [
            broker
            for broker_id, broker in sorted(image.brokers.items())
            if not broker.fenced or broker_id in self._fenced
        ]

    def _awaits_news(self, image: MetadataImage) -> bool:
        """Whether metadata are due: a broker we just lost is not fenced yet, or none is known."""
        if not self._disconnected:
            return not _any_in_service(image)
        since = self._clock.monotonic() - DELAY_S
        self._disconnected = {one: when for one, when in self._disconnected.items() if when > since}
        brokers = image.brokers
        if any(one in brokers and not brokers[one].fenced for one in self._disconnected):
            return True
        return not _any_in_service(image)

    def _release(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        held, self._delayed, self._delayed_for = self._delayed, [], None
        for answer in held:
            answer()


def _any_in_service(image: MetadataImage) -> bool:
    """Whether any broker is unfenced; usually the first one checked is."""
    return any(not broker.fenced for broker in image.brokers.values())

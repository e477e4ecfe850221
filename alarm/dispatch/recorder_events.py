"""What the recorder itself has to publish: what it lost, who was notified, who has acknowledged.

In: the operations store, the file of acknowledgements, topics that were made again. Out: records on
`event.incident`, `event.notified` and `event.acknowledged`, each until the brokers have it.
Never: a wait for brokers that are away; the next second tries again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping

from alarm.dispatch.operations import OperationsStore
from alarm.dispatch.published_events import PublishedEvents
from alarm.dispatch.recorded_changes import RECORDED_TOPICS, RECORDER
from bus.client.committed import unread_records, void_position
from bus.client.kafka.topic_follower import TopicFollower
from bus.client.model import ClusterIdentity, TopicPartition
from bus.contracts.alarms import Incident
from bus.notify.acknowledgements import KEEP_MS, Acknowledgements, AcknowledgementsUnavailable
from bus.runtime import wall_clock

log = logging.getLogger(__name__)

PUBLISH_EVERY_S = 1.0  # how late the other site learns that somebody was told, or has acknowledged


class RecorderEvents:
    """One thread, for the life of a recorder: an incident outlives the store it was noted beside.

    Invariant: `_unpublished` are incidents that the brokers have not acknowledged.
    """

    def __init__(self, acknowledged: Acknowledgements) -> None:
        self._acknowledged = acknowledged
        self._due_at_s = 0.0
        self._unpublished: list[Incident] = []

    def publish_due(self, operations: OperationsStore, events: PublishedEvents) -> None:
        """What is due goes out once a second; what the brokers have acknowledged is noted."""
        self._note_published(operations, events)
        if time.monotonic() < self._due_at_s:
            return
        self._due_at_s, now_ms = time.monotonic() + PUBLISH_EVERY_S, wall_clock.now_ms()
        events.incidents.send((one.incident_id, one) for one in self._unpublished)
        events.notified.send((one.alarm_id, one) for one in operations.newly_notified(now_ms))
        self._send_acknowledged(operations, events, now_ms)

    def _note_published(self, operations: OperationsStore, events: PublishedEvents) -> None:
        for incident in events.incidents.take_acknowledged():
            self._unpublished.remove(incident)
        if notified := events.notified.take_acknowledged():
            operations.mark_event_published(notified)
        if acknowledged := events.acknowledged.take_acknowledged():
            operations.mark_acknowledged_published(acknowledged)

    def _send_acknowledged(
        self, operations: OperationsStore, events: PublishedEvents, now_ms: int
    ) -> None:
        try:
            taken = self._acknowledged.since(now_ms - KEEP_MS)
        except AcknowledgementsUnavailable as error:
            log.warning("the other site hears later who has taken what in hand: %s", error)
            return
        known = operations.published_acknowledged() if taken else set()
        new = [one for one in taken if one.id not in known]
        operations.alarm_states.note_takes(new)
        events.acknowledged.send((one.id, one) for one in new)

    def note_unread(
        self,
        renewed: Iterable[str],
        cluster: ClusterIdentity,
        topics: TopicFollower,
        positions: Mapping[TopicPartition, int],
    ) -> None:
        """What is lost with topics that were made anew. The watch list is a state: the new topic
        says all of it, and that it was made anew is told at any rate."""
        now = topics.identity
        for topic in sorted(renewed):
            before, topic_id = cluster.topic_ids[topic], now.topic_ids[topic] if now else ""
            if before == topic_id:
                continue
            log.warning("dispatcher: %s was made anew: read from its start", topic)
            now_ms = wall_clock.now_ms()
            if topic not in RECORDED_TOPICS:
                self._unpublished += void_position(RECORDER, topic, topic_id, now_ms)
                continue
            places = {(p.topic, p.partition): max(0, at) for p, at in positions.items()}
            unread = topics.unread(topic, before, places)
            self._unpublished += unread_records(RECORDER, topic, topic_id, unread, now_ms)

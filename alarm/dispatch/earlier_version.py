"""What an earlier version left in the operations store: alarms not yet published, its position.

That version wrote an alarm to the file first and to `event.alarm` afterwards, and kept its position
on `event.candidate` in the file. Both are carried over once, before anything is decided.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable

from alarm.dispatch.alarm_topic import AlarmTopic
from alarm.dispatch.operations import OperationsStore
from bus.client.kafka.admin import Admin
from bus.client.model import ClusterIdentity, TopicPartition
from bus.contracts.groups import DISPATCHER
from bus.contracts.topics import EVENT_ALARM, EVENT_CANDIDATE
from bus.errors import BusError, ErrorCode
from bus.settings import BusSettings
from ingest.store.port import Position
from ingest.store.positions import valid_positions

log = logging.getLogger(__name__)

BATCH = 500


def publish_outbox(operations: OperationsStore, topic: AlarmTopic) -> None:
    """Alarms go to their topic unless they stand there. Raises `BusError` where the bus does not
    take them: the next start tries again."""
    topic.catch_up()
    while pending := operations.outbox(BATCH):
        new = topic.new_of([alarm for _, alarm in pending], {}).raised
        if not topic.publish(new, math.inf):
            raise BusError(ErrorCode.REQUEST_TIMED_OUT, f"{EVENT_ALARM} did not take {len(new)}")
        operations.mark_produced([row_id for row_id, _ in pending])
        log.info("%d alarms of an earlier version are published", len(new))


def hand_over_position(
    operations: OperationsStore,
    stored: Iterable[Position],
    bus: BusSettings,
    cluster: ClusterIdentity,
) -> None:
    """The position becomes the group's, unless it has one. Raises `BusError`."""
    ends = {
        TopicPartition(*place): end
        for place, end in valid_positions(stored, cluster).items()
        if place[0] == EVENT_CANDIDATE
    }
    if not ends:
        return
    admin = Admin(bus, client_id=DISPATCHER)
    try:
        if not admin.committed(DISPATCHER):
            admin.set_committed(DISPATCHER, ends)
            log.info("the group %s goes on at %s, where an earlier version stood", DISPATCHER, ends)
    finally:
        admin.close()
    operations.forget_positions(DISPATCHER, EVENT_CANDIDATE)

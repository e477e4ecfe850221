"""Reads the records around a moment that devices have numbered.

In: brokers, a span of time. Out: `NumberedRecord`s. Core: `dr_mirror.report.plan.sequence_gaps`.
Raises BusError. Never: more records than a limit, without saying so.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field

from bus.client.kafka.admin import Admin
from bus.client.kafka.consumer import Consumer
from bus.client.model import TopicPartition
from bus.domain.kinds import KIND_OF_TOPIC
from bus.settings import BusSettings
from dr_mirror.report.plan.sequence_gaps import NumberedRecord, numbered_record

CLIENT_ID = "databus-mirror-gaps"
TIMEOUT_S = 30.0
MAX_POLLED = 5_000
MAX_RECORDS = 3_000_000
"""Kept at once: some hundreds of megabytes."""


@dataclass(slots=True)
class ReadRecords:
    """`read` of the bus; `numbered` of them; `is_whole`: all of the span."""

    read: int = 0
    numbered: list[NumberedRecord] = field(default_factory=list)
    is_whole: bool = True


def read_numbered(
    bus: BusSettings, first_ms: int, end_ms: int, on_progress: Callable[[int], None]
) -> ReadRecords:
    """Those that the brokers got in [first_ms, end_ms). `on_progress` is told how many were read.
    Raises BusError."""
    found = ReadRecords()
    with (
        Consumer(bus, client_id=CLIENT_ID, timeout_s=TIMEOUT_S) as consumer,
        closing(Admin(bus, client_id=CLIENT_ID, timeout_s=TIMEOUT_S)) as admin,
    ):
        places = consumer.partitions_of_all(KIND_OF_TOPIC)
        begins, ends = admin.offsets_at(places, first_ms), admin.offsets_at(places, end_ms)
        left = {place for place in places if begins[place] < ends[place]}
        consumer.assign({place: begins[place] for place in left})
        while left and found.is_whole and not consumer.at_end:
            for record in consumer.poll(MAX_POLLED, TIMEOUT_S):
                if record.offset < ends[TopicPartition(record.topic, record.partition)]:
                    found.read += 1
                    one = numbered_record(record.value, KIND_OF_TOPIC[record.topic])
                    if one is not None:
                        found.numbered.append(one)
            on_progress(found.read)
            positions = consumer.positions()
            left = {place for place in left if positions.get(place, 0) < ends[place]}
            found.is_whole = len(found.numbered) < MAX_RECORDS
    return found

"""Messages → judged rows: the work of a record, the same in the driver's process and in executors.

In: messages or Arrow batches of them, the register, the site's zone and clock limits. Out: a
`JudgedRecord` each, or Arrow batches of `JUDGED_SCHEMA`. Never: the clock, I/O, Spark.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from bus.contracts.headers import Reason
from bus.contracts.meters import Arrived, CumulativeCount, Sent
from bus.contracts.register import Register
from bus.contracts.topics import DATA_VIDEO_SEGMENT, METER_ARRIVED, METER_SENT
from bus.contracts.video_segments import VideoSegment
from bus.domain.kinds import KIND_OF_TOPIC, KINDS
from ingest.normalise import ClockLimits, normalise, rejected_row
from ingest.normalise.clock import DEFAULT as DEFAULT_CLOCK
from ingest.normalise.device_clocks import DelayReader, Readings, merged_readings
from ingest.store.port import CellKey, RecordRow, RejectedRow
from ingest.store.quality_cells import key_of
from spark_apps.batches.message import (
    StreamMessage,
    decoded,
    envelope_of,
    has_arrival,
    messages_of_batch,
)
from spark_apps.tasks.arrow_rows import record_batch

if TYPE_CHECKING:
    import pyarrow as pa

JUDGED_SCHEMA = (
    "record_id string, topic string, partition int, offset bigint, kind string, row_type string, "
    "row binary"
)
"""`kind` is the kind of data, `row` the msgpack of what `row_type` names: a record, a rejected one,
a piece of film, by its topic a counter of a sender or an edge, or by device the delays of odd
records of a batch."""
RECORD, REJECTED, DELAYS, SEGMENT = "record", "rejected", "delays", "segment"
COUNTED_ON = {METER_SENT: Sent, METER_ARRIVED: Arrived}
"""What travels on the topics of counters."""

_REASONS = frozenset(reason.value for reason in Reason)
_place = itemgetter(0, 1, 2)  # of a message: topic, partition, offset
_encode = msgspec.msgpack.Encoder().encode
_records = msgspec.msgpack.Decoder(RecordRow)
_rejects = msgspec.msgpack.Decoder(RejectedRow)
_readings = msgspec.msgpack.Decoder(Readings)
_segments = msgspec.msgpack.Decoder(VideoSegment)
_segment_decoder = msgspec.json.Decoder(VideoSegment)
_counters = {topic: msgspec.msgpack.Decoder(kind) for topic, kind in COUNTED_ON.items()}
_decoders = {topic: msgspec.json.Decoder(kind) for topic, kind in COUNTED_ON.items()}


class JudgedRecord(NamedTuple):
    """One message of a kind of data, as it will be stored or kept with its reason."""

    kind: str
    row: RecordRow | RejectedRow


def judge(
    message: StreamMessage, register: Register, zone: str, clock: ClockLimits = DEFAULT_CLOCK
) -> JudgedRecord:
    """Normalise a message of a data topic; take over the edge's verdict on one in quarantine."""
    envelope = envelope_of(message, clock)
    kind = KIND_OF_TOPIC.get(message.topic)
    if kind is not None:
        return JudgedRecord(kind, normalise(message.value, kind, envelope, register, zone))
    # Headers are free text; what is counted under them must not grow with what somebody writes.
    meant = message.kind if message.kind in KINDS else ""
    reason = message.reason if message.reason in _REASONS else Reason.BAD_VALUE.value
    field = message.field or ""
    return JudgedRecord(meant, rejected_row(message.value, meant, envelope, reason, field, zone))


class JudgedBatch(NamedTuple):
    """What is in a batch, judged; what its records tell of their devices' clocks."""

    records: list[JudgedRecord]
    counters: list[CumulativeCount]
    delays: Readings
    segments: list[VideoSegment]


def judge_messages(
    messages: Iterable[StreamMessage],
    register: Register,
    zone: str,
    clock: ClockLimits = DEFAULT_CLOCK,
) -> JudgedBatch:
    """Records and counters, each in the order of (topic, partition, offset): of equal identities
    the first one is the row."""
    records = []
    delays = DelayReader(clock)
    values: dict[str, list[bytes | None]] = {topic: [] for topic in COUNTED_ON}
    segments: list[VideoSegment] = []
    for message in sorted(messages, key=_place):
        if message.topic == DATA_VIDEO_SEGMENT:
            segments += segments_of(message)
        elif message.topic in COUNTED_ON:
            values[message.topic].append(message.value)
        else:
            judged = judge(message, register, zone, clock)
            records.append(judged)
            _read_delay(delays, message, judged.row)
    counters = [one for topic, some in values.items() for one in counters_of(some, topic)]
    return JudgedBatch(records, counters, delays.readings, segments)


def segments_of(message: StreamMessage) -> list[VideoSegment]:
    """What a message says of a piece of film; nothing, if it cannot be read."""
    return list(decoded([message.value], _segment_decoder))


def _read_delay(
    delays: DelayReader, message: StreamMessage, row: RecordRow | RejectedRow
) -> None:
    if not isinstance(row, RecordRow):
        return
    delay_ms = row.received_at_ms - row.captured_at_ms - row.clock_off_ms
    if delays.is_read(row.camera_ip, delay_ms) and not row.replayed and has_arrival(message):
        delays.add(row.camera_ip, row.received_at_ms, delay_ms)


def counters_of(values: Iterable[bytes | None], topic: str) -> list[CumulativeCount]:
    """The readable counters of a topic, of each only the largest number: they are cumulative in
    their epoch.
    """
    newest: dict[tuple[str, int, CellKey], CumulativeCount] = {}
    for one in decoded(values, _decoders[topic]):
        counter = (one.source, one.epoch, key_of(one))
        if counter not in newest or newest[counter].count < one.count:
            newest[counter] = one
    return list(newest.values())


def judge_batches(
    batches: Iterable[pa.RecordBatch],
    register: Register,
    zone: str,
    clock: ClockLimits = DEFAULT_CLOCK,
) -> Iterator[pa.RecordBatch]:
    """The same over the Arrow batches of a task (`source.select_columns` → `JUDGED_SCHEMA`)."""
    for batch in batches:
        messages = messages_of_batch(batch)
        delays = DelayReader(clock)
        rows = [row for m in messages for row in _columns(m, register, zone, clock, delays)]
        if delays.readings:
            rows.append(("", "", 0, 0, "", DELAYS, _encode(delays.readings)))
        yield record_batch(JUDGED_SCHEMA, rows)


def _columns(
    message: StreamMessage, register: Register, zone: str, clock: ClockLimits, delays: DelayReader
) -> Iterator[tuple[object, ...]]:
    place = (message.topic, message.partition, message.offset)
    if message.topic == DATA_VIDEO_SEGMENT:
        for segment in segments_of(message):
            yield (segment.segment_id, *place, "", SEGMENT, _encode(segment))
        return
    if message.topic in COUNTED_ON:
        for one in counters_of([message.value], message.topic):
            yield ("", *place, one.kind, message.topic, _encode(one))
        return
    kind, row = judge(message, register, zone, clock)
    _read_delay(delays, message, row)
    row_type = RECORD if isinstance(row, RecordRow) else REJECTED
    yield (row.record_id, *place, kind, row_type, _encode(row))


def judged_batch(table: pa.Table) -> JudgedBatch:
    """What `judge_batches` made, read again, in the order of (topic, partition, offset)."""
    table = table.sort_by([(name, "ascending") for name in ("topic", "partition", "offset")])
    names = ("kind", "row_type", "row")
    kinds, types, rows = (table.column(name).to_pylist() for name in names)
    records: list[JudgedRecord] = []
    counters: list[CumulativeCount] = []
    delays: list[Readings] = []
    segments: list[VideoSegment] = []
    for kind, row_type, row in zip(kinds, types, rows, strict=True):
        if row_type == DELAYS:
            delays.append(_readings.decode(row))
        elif row_type == SEGMENT:
            segments.append(_segments.decode(row))
        elif row_type in COUNTED_ON:
            counters.append(_counters[row_type].decode(row))
        else:
            decoder = _records if row_type == RECORD else _rejects
            records.append(JudgedRecord(kind, decoder.decode(row)))
    return JudgedBatch(records, counters, merged_readings(delays), segments)

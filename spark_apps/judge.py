"""Messages → judged rows: the work of a record, the same in the driver's process and in executors.

In: messages or Arrow batches of them, the register, the site's zone and clock limits. Out: a
`JudgedRecord` each, or Arrow batches of `JUDGED_SCHEMA`. Never: the clock, I/O, Spark.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from bus.contracts.headers import Reason
from bus.contracts.register import Register
from bus.domain.kinds import KIND_OF_TOPIC
from ingest.normalise import ClockLimits, normalise, rejected_row
from ingest.normalise.clock import DEFAULT as DEFAULT_CLOCK
from ingest.store.port import RecordRow, RejectedRow
from spark_apps.message import StreamMessage, envelope_of, messages_of_batch

if TYPE_CHECKING:
    import pyarrow as pa

JUDGED_SCHEMA = (
    "record_id string, topic string, partition int, offset bigint, kind string, is_valid boolean, "
    "row binary"
)
"""`kind` is the kind of data, `row` the msgpack of a `RecordRow` or, where it is not valid, of a
`RejectedRow`."""

_encode = msgspec.msgpack.Encoder().encode
_records = msgspec.msgpack.Decoder(RecordRow)
_rejects = msgspec.msgpack.Decoder(RejectedRow)


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
    meant = message.kind or ""
    reason = message.reason or Reason.BAD_VALUE.value
    field = message.field or ""
    return JudgedRecord(meant, rejected_row(message.value, meant, envelope, reason, field, zone))


def judge_batches(
    batches: Iterable[pa.RecordBatch],
    register: Register,
    zone: str,
    clock: ClockLimits = DEFAULT_CLOCK,
) -> Iterator[pa.RecordBatch]:
    """`judge` over the Arrow batches of a task (`source.select_columns` → `JUDGED_SCHEMA`)."""
    import pyarrow as pa  # here: what only judges single messages stays light

    for batch in batches:
        messages = messages_of_batch(batch)
        judged = [judge(message, register, zone, clock) for message in messages]
        yield pa.RecordBatch.from_pydict(
            {
                "record_id": [record.row.record_id for record in judged],
                "topic": batch.column("topic"),
                "partition": batch.column("partition"),
                "offset": batch.column("offset"),
                "kind": [record.kind for record in judged],
                "is_valid": [isinstance(record.row, RecordRow) for record in judged],
                "row": [_encode(record.row) for record in judged],
            }
        )


def judged_records(table: pa.Table) -> Iterator[JudgedRecord]:
    """What `judge_batches` made, read again."""
    kinds, valid, rows = (table.column(name).to_pylist() for name in ("kind", "is_valid", "row"))
    for kind, is_valid, row in zip(kinds, valid, rows, strict=True):
        yield JudgedRecord(kind, (_records if is_valid else _rejects).decode(row))

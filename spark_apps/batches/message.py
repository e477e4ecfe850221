"""One message of Kafka as the applications process it.

In: the Arrow table of a batch. Out: `StreamMessage`s, what they cover. Never: Spark, I/O.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from bus.client.model import TopicAndPartition
from bus.contracts import headers, topics
from ingest.normalise import ClockLimits, Envelope
from ingest.normalise.clock import DEFAULT as DEFAULT_CLOCK

if TYPE_CHECKING:
    import pyarrow as pa

Value = TypeVar("Value")
OffsetRanges = dict[TopicAndPartition, tuple[int, int]]  # first offset, exclusive end

# In the order of `StreamMessage`'s last fields.
HEADERS = (
    headers.RECORD_ID,
    headers.RECEIVED_AT,
    headers.SOURCE,
    headers.REPLAY,
    headers.KIND,
    headers.REASON,
    headers.FIELD,
)


class StreamMessage(NamedTuple):
    """Place, time, value, then the headers that are known; None where one is missing."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    value: bytes | None
    record_id: str | None = None
    received_at: str | None = None
    source: str | None = None
    replay: str | None = None
    kind: str | None = None
    reason: str | None = None
    field: str | None = None


def decoded(
    values: Iterable[bytes | None], decoder: msgspec.json.Decoder[Value]
) -> Iterator[Value]:
    """The readable ones: any client may write to a topic, and what is no such JSON is not ours."""
    for value in values:
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            yield decoder.decode(value or b"")


def messages_of(table: pa.Table) -> list[StreamMessage]:
    """The messages of a batch, with or without headers."""
    columns = [table.column(number).to_pylist() for number in range(5)]
    if table.num_columns > len(columns):
        columns += _headers(table.column(5))
    return list(map(StreamMessage, *columns))


def messages_of_batch(batch: pa.RecordBatch) -> list[StreamMessage]:
    """The same for what a task of Spark is given."""
    import pyarrow as pa  # here: packages that only need `StreamMessage` stay light

    return messages_of(pa.Table.from_batches([batch]))


def ends_of(offsets: OffsetRanges) -> dict[TopicAndPartition, int]:
    """The exclusive ends of ranges."""
    return {partition: end for partition, (_, end) in offsets.items()}


def envelope_of(message: StreamMessage, clock: ClockLimits = DEFAULT_CLOCK) -> Envelope:
    """What the bus knows of a message; the edge's arrival time where a header tells it. Nothing is
    corrected by the time that a producer gives its message: its clock may be the wrong one."""
    has_time = has_arrival(message)
    if clock.offsets and not has_time:
        clock = clock._replace(offsets={})
    return Envelope(
        received_at_ms=int(message.received_at or "") if has_time else message.timestamp_ms,
        record_id=message.record_id or "",
        source=message.source or "",
        topic=message.topic,
        partition=message.partition,
        offset=message.offset,
        replayed=message.replay == "1",
        clock=clock,
        retention_ms=None if has_time else _retention_ms(message.topic),
    )


def _retention_ms(topic: str) -> int:
    """By the contract, so that every reader says the same of a record. 0: nobody knows."""
    known = topics.TOPICS.get(topic)
    return known.retention_ms if known is not None else 0


def has_arrival(message: StreamMessage) -> bool:
    """Whether a header tells when an edge, or what sends like one, took it."""
    text = message.received_at or ""
    return text.isascii() and text.isdigit() and len(text) <= 15


def _headers(column: pa.ChunkedArray) -> list[list[str | None]]:
    """One list per known header. Looks at all keys at once: a batch has few different ones."""
    found: list[list[str | None]] = [[None] * len(column) for _ in HEADERS]
    base = 0
    for chunk in column.chunks:
        flat, owners = chunk.flatten(), chunk.value_parent_indices()
        keys = flat.field("key").dictionary_encode()
        for number, key in enumerate(keys.dictionary.to_pylist()):
            if key in HEADERS:
                mine = _equal(keys.indices, number)
                values = flat.field("value").filter(mine).to_pylist()
                _put(found[HEADERS.index(key)], base, owners.filter(mine).to_pylist(), values)
        base += len(chunk)
    return found


def _equal(indices: pa.Array, number: int) -> pa.Array:
    import pyarrow as pa  # here: packages that only need `StreamMessage` stay light
    import pyarrow.compute as pc

    # A plain number would be compared with pandas' types first, and that is 36 MB of packages.
    one = pa.Array.from_buffers(pa.int32(), 1, [None, pa.py_buffer(array("i", (number,)))])
    return pc.equal(indices, one[0])


def _put(
    column: list[str | None], base: int, owners: Sequence[int], values: Sequence[bytes | None]
) -> None:
    """The last header of a name wins; bytes that are no text are kept readable."""
    for owner, value in zip(owners, values, strict=True):
        column[base + owner] = None if value is None else value.decode("utf-8", "replace")

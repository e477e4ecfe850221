"""One message of Kafka as the applications take it.

In: the columns of a `transform`. Out: `Message`s, what they cover. Never: Spark, I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from spark_apps.cluster import Partition

Covered = dict[Partition, tuple[int, int]]  # first offset, exclusive end


class Message(NamedTuple):
    """Place, time, value, then headers. Every transform's columns are a beginning of this list."""

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


def messages_of(columns: Sequence[Sequence[object]]) -> list[Message]:
    """Messages from the columns of a batch."""
    return list(map(Message, *columns))


def covered(messages: Iterable[Message]) -> Covered:
    """Per partition the first offset of a batch and its exclusive end."""
    found: Covered = {}
    for topic, partition, offset, *_ in messages:
        first, end = found.get((topic, partition), (offset, 0))
        found[topic, partition] = (min(first, offset), max(end, offset + 1))
    return found

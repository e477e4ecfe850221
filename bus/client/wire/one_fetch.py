"""A Fetch of one partition outside any session, and where it begins. Pure.

In: a partition, a position. Out: a request. Never: a connection.
"""

from __future__ import annotations

from dataclasses import dataclass

from bus.client.wire.fetch_session import FINAL_EPOCH, NO_SESSION, PartitionKey, fetch_topics
from bus.protocol.generated.fetch import FetchPartition, FetchRequest
from bus.protocol.wire import Buffer


@dataclass(frozen=True, slots=True)
class FetchFrom:
    """Where to fetch a partition from. `leader_epoch` is that of the metadata, `last_epoch` that of
    the last batch fetched; -1: unknown."""

    topic: str
    position: int
    leader_epoch: int = -1
    last_epoch: int = -1


def one_fetch(
    key: PartitionKey, start: FetchFrom, *, max_bytes: int, isolation_level: int = 0
) -> FetchRequest:
    """A request for one partition outside any session, answered at once."""
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=NO_SESSION,
        session_epoch=FINAL_EPOCH,
        topics=fetch_topics([asked_partition(key, start, max_bytes)]),
    )


def fetched(records: Buffer | list[Buffer] | None) -> Buffer:
    """The batches of an answer, in one piece: only brokers make some of several."""
    return b"".join(records) if isinstance(records, list) else records or b""


def asked_partition(
    key: PartitionKey, start: FetchFrom, max_bytes: int
) -> tuple[PartitionKey, str, FetchPartition]:
    """As `fetch_topics` takes it."""
    asked = FetchPartition(
        partition=key[1],
        current_leader_epoch=start.leader_epoch,
        fetch_offset=start.position,
        last_fetched_epoch=start.last_epoch,
        partition_max_bytes=max_bytes,
    )
    return key, start.topic, asked

"""What an edge sent to the other site when it moved: the answer of `GET /v1/sent-again`. Pure.

In: JSON. Out: ranges of offsets at the site that was left. Raises `SentAgainError`. Never: a range
that is empty, or two that meet.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec

Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class SentAgainError(ValueError):
    """Bytes that are no such answer."""


class SentAgainPartition(msgspec.Struct, frozen=True, kw_only=True):
    """`ranges`: first offset and the one behind the last, at the former site; ascending."""

    topic: str
    partition: int
    ranges: tuple[tuple[Offset, Offset], ...]


class SentAgain(msgspec.Struct, frozen=True, kw_only=True):
    """One move that is complete. `records`: all that were sent. `unacknowledged`: at most so many
    messages the former site may have taken without this edge having heard; they went to the new one
    as new."""

    former_cluster_id: str
    new_cluster_id: str
    at_ms: int
    records: int
    unacknowledged: int
    partitions: tuple[SentAgainPartition, ...]


def decode_sent_again(data: bytes) -> SentAgain:
    """One answer; its ranges ascend and do not meet. Raises SentAgainError."""
    try:
        found = msgspec.json.decode(data, type=SentAgain)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SentAgainError(str(error)) from None
    partitions = tuple(
        msgspec.structs.replace(one, ranges=union(one.ranges)) for one in found.partitions
    )
    return msgspec.structs.replace(found, partitions=partitions)


def union(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The same offsets in as few ranges as there can be, ascending; empty ones are left out."""
    found: list[tuple[int, int]] = []
    for first, end in sorted(ranges):
        if first >= end:
            continue
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((first, end))
    return tuple(found)

"""A compacted partition of both sites compared by the last value of each key.

In: the leaders of both sides. Out: offsets of keys that differ. Core:
`dr_mirror.proof.plan.last_values`. Never: a change at either side.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bus.records.batch import RecordsError
from dr_mirror.proof.plan.digests import BatchDifference
from dr_mirror.proof.plan.last_values import MAX_NAMED, LastValues, differing_keys, shares_of
from dr_mirror.proof.replica_endpoints import EndpointError, FetchEndpoint


@dataclass(slots=True)
class KeyComparison:
    """[first, end) was compared; `keys` have a value at the target, `size_bytes` were read of
    both."""

    first: int
    end: int
    keys: int = 0
    size_bytes: int = 0
    differences: list[BatchDifference] = field(default_factory=list)


async def compare_keys(source: FetchEndpoint, target: FetchEndpoint) -> KeyComparison:
    """Over what both have. Raises EndpointError."""
    theirs, ours = await source.held(), await target.held()
    first, end = min(theirs.start, ours.start), min(theirs.end, ours.end)
    result = KeyComparison(first, max(end, first))
    shares = shares_of(max(theirs.end, ours.end) - first)
    for share in range(shares):
        of_source, of_target = (LastValues(end, share, shares) for _ in range(2))
        # What the source has behind `end` says which keys its cleaner may have dealt with.
        result.size_bytes += await _read(source, of_source, theirs.start, theirs.end)
        result.size_bytes += await _read(target, of_target, ours.start, end)
        result.keys += len(of_target.values)
        result.differences += differing_keys(of_source, of_target)
    result.differences = sorted(result.differences, key=lambda one: one.first_offset)[:MAX_NAMED]
    return result


async def _read(endpoint: FetchEndpoint, values: LastValues, first: int, end: int) -> int:
    position, size = first, 0
    while position < end:
        records = await endpoint.records(position)
        size += len(records)
        try:
            following = values.add(records, position)
        except RecordsError as error:
            raise EndpointError(f"offset {position}: {error.detail}") from None
        if following <= position:  # the cleaner has emptied what is left
            break
        position = following
    return size

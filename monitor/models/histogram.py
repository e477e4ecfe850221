"""A mergeable histogram of milliseconds: bucket numbers are stable, because they are stored and
sent.

In: values in milliseconds, bucket counts. Out: bucket counts, percentiles.
Never: a clock, I/O. Buckets are log-linear: exact below 64 ms, then 32 buckets per doubling, so
that a percentile is at most 3.1 % too high. A negative latency (a camera whose clock is ahead)
has the mirrored, negative bucket, so that a wrong clock stays visible instead of looking fast.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import accumulate

Buckets = dict[int, int]

_SUB_BITS = 5
MAX_VALUE_MS = (1 << 42) - 1  # about 139 years; a camera that lives in 1970 still fits


def bucket_of(value_ms: int) -> int:
    """The bucket of one latency; monotonic in the value."""
    if value_ms < 0:
        return -1 - bucket_of(-1 - value_ms)
    value_ms = min(value_ms, MAX_VALUE_MS)
    shift = max(0, value_ms.bit_length() - _SUB_BITS - 1)
    return (shift << _SUB_BITS) + (value_ms >> shift)


def upper_ms(bucket: int) -> int:
    """The largest value of a bucket, inclusive."""
    if bucket < 0:
        return -1 - _lower_ms(-1 - bucket)
    return _lower_ms(bucket + 1) - 1


def _lower_ms(bucket: int) -> int:
    shift = max(0, (bucket >> _SUB_BITS) - 1)
    return (bucket - (shift << _SUB_BITS)) << shift


def histogram(values_ms: Iterable[int]) -> Buckets:
    """Count values into buckets."""
    buckets: Buckets = {}
    for value_ms in values_ms:
        bucket = bucket_of(value_ms)
        buckets[bucket] = buckets.get(bucket, 0) + 1
    return buckets


def merge(parts: Iterable[Mapping[int, int]]) -> Buckets:
    """The histogram of all values of all parts."""
    merged: Buckets = {}
    for part in parts:
        for bucket, count in part.items():
            merged[bucket] = merged.get(bucket, 0) + count
    return merged


def percentiles(buckets: Mapping[int, int], quantiles: Iterable[float]) -> list[int]:
    """For each quantile (0 < q <= 1) the smallest bucket bound below which that share lies; 0 if
    empty.
    """
    ordered = sorted(buckets)
    seen = list(accumulate(buckets[bucket] for bucket in ordered))
    return [_percentile(ordered, seen, quantile) for quantile in quantiles]


def _percentile(ordered: list[int], seen: list[int], quantile: float) -> int:
    if not ordered:
        return 0
    at = bisect_left(seen, quantile * seen[-1] - 1e-9)
    return upper_ms(ordered[min(at, len(ordered) - 1)])

"""Buckets are monotonic and exact enough; histograms merge."""

from __future__ import annotations

import random

from monitor.models.histogram import (
    MAX_VALUE_MS,
    bucket_of,
    histogram,
    merge,
    percentiles,
    upper_ms,
)


def test_every_value_lies_in_its_bucket_and_the_bucket_is_narrow(dice: random.Random) -> None:
    """The upper bound is at most 3.2 % above the value, exact below 64 ms."""
    values = [*range(2000), *(dice.randrange(MAX_VALUE_MS) for _ in range(2000))]
    for value in values:
        bound = upper_ms(bucket_of(value))
        assert value <= bound <= value + max(0, value >> 5), value


def test_buckets_are_monotonic_across_zero() -> None:
    """A clock that runs ahead gives buckets below those of real latencies."""
    buckets = [bucket_of(value) for value in range(-3000, 3000)]
    assert buckets == sorted(buckets)
    assert bucket_of(-1) == -1
    assert upper_ms(bucket_of(-1)) == -1


def test_neighbouring_buckets_touch_without_gap() -> None:
    """The value after a bucket's bound is in the next bucket."""
    for bucket in range(-300, 800):
        assert bucket_of(upper_ms(bucket)) == bucket
        assert bucket_of(upper_ms(bucket) + 1) == bucket + 1


def test_a_value_beyond_the_range_is_kept_in_the_last_bucket() -> None:
    """A camera with its clock in the year 1 is still counted."""
    assert bucket_of(1 << 60) == bucket_of(MAX_VALUE_MS)


def test_merged_parts_have_the_percentiles_of_the_whole(dice: random.Random) -> None:
    """Merging loses nothing that one histogram would have."""
    values = [int(dice.expovariate(1 / 400)) for _ in range(5000)]
    parts = [histogram(values[i::7]) for i in range(7)]
    assert merge(parts) == histogram(values)


def test_percentiles_are_close_to_the_exact_ones(dice: random.Random) -> None:
    """Never below the exact value, and at most a bucket's width above."""
    values = sorted(int(dice.lognormvariate(6, 1)) for _ in range(4001))
    for quantile, found in zip(
        (0.5, 0.95, 0.99, 1.0),
        percentiles(histogram(values), (0.5, 0.95, 0.99, 1.0)),
        strict=True,
    ):
        exact = values[max(0, -int(-quantile * len(values) // 1) - 1)]
        assert exact <= found <= exact * 1.033 + 1


def test_percentiles_of_nothing_are_zero() -> None:
    """An empty minute draws no line."""
    assert percentiles({}, (0.5, 0.99)) == [0, 0]

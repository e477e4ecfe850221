"""Times since a capture are counted many at once, as if each were observed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram

from bus.metrics.capture_histogram import BUCKETS_S, CaptureHistogram

NAME = "databus_made_seconds"
EDGES_MS = [round(edge * 1000) for edge in BUCKETS_S]
TIMES_MS = st.integers(-(10**9), 10**10) | st.sampled_from(EDGES_MS)


@given(st.lists(st.tuples(TIMES_MS, st.integers(1, 20)), max_size=8))
def test_many_at_once_are_as_many_observed_one_by_one(counted: list[tuple[int, int]]) -> None:
    """The library is asked for its inner numbers: this tells when it has changed them."""
    at_once, one_by_one = CollectorRegistry(), CollectorRegistry()
    made = CaptureHistogram(NAME, "Made.", at_once)
    plain = Histogram(NAME, "Made.", ["kind"], registry=one_by_one, buckets=BUCKETS_S)
    for elapsed_ms, records in counted:
        made.count("vehicle", elapsed_ms, records)
        for _ in range(records):
            plain.labels("vehicle").observe(max(0, elapsed_ms) / 1000)
    for edge in (*map(float, BUCKETS_S), "+Inf"):
        labels = {"kind": "vehicle", "le": str(edge)}
        assert at_once.get_sample_value(f"{NAME}_bucket", labels) == one_by_one.get_sample_value(
            f"{NAME}_bucket", labels
        )
    for suffix in ("_count", "_sum"):
        ours, theirs = (
            registry.get_sample_value(NAME + suffix, {"kind": "vehicle"}) or 0.0
            for registry in (at_once, one_by_one)
        )
        assert abs(ours - theirs) <= 1e-9 * abs(theirs)


def test_a_kind_that_is_not_ours_makes_no_series_of_its_own() -> None:
    registry = CollectorRegistry()
    made = CaptureHistogram(NAME, "Made.", registry)
    for number in range(100):
        made.count(f"a cat {number}", 1)
    assert registry.get_sample_value(f"{NAME}_count", {"kind": "other"}) == 100
    assert len({s.labels["kind"] for m in registry.collect() for s in m.samples}) == 1

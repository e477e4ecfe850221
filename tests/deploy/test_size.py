"""The sizes of a city follow from the costs of a record by arithmetic that a reader can repeat."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from deploy.size import DAY_S, GIB, Demand, RecordCosts, size

DEMANDS = st.builds(
    Demand,
    cameras=st.integers(1, 1_000_000),
    rate=st.floats(0.001, 10),
    keep_days=st.floats(1, 3_650),
    peak=st.floats(1, 10),
)


def counts(demand: Demand, costs: RecordCosts = RecordCosts()) -> dict[str, int]:
    return {need.what: need.count for need in size(demand, costs)}


def test_a_city_of_twenty_thousand_cameras_by_hand() -> None:
    """10,000 records a second, 30,000 at the peak, with round costs."""
    costs = RecordCosts(
        broker_us=100, copy_us=50, edge_us=200, executor_us=500, bus_bytes=1_000, store_bytes=2_000,
        region_server_records_s=5_000,
    )  # fmt: skip
    found = counts(Demand(cameras=20_000, rate=0.5, keep_days=30), costs)
    stored = 10_000 * DAY_S * 30 * 2_000 * 3 / GIB
    assert found == {
        "records at the peak": 30_000,
        "edges": 2,  # 6 cores, 4 usable in each server
        "brokers": 7,  # by disk: 16,894 GiB in 2,800 each; 1.5 by CPU
        "partitions of data.vehicle": 60,
        "executors of ingest and watch list": 30,  # 15 cores, twice
        "region servers": math.ceil(stored / 2_800),
        "disk of the record store": math.ceil(stored),
        "disk of the bus": math.ceil(10_000 * DAY_S * 7 * 1_000 * 3 / GIB),
    }


def test_a_village_gets_what_survives_a_failure() -> None:
    """Few cameras need no computing power, but copies."""
    found = counts(Demand(cameras=3, rate=0.1, keep_days=30))
    assert (found["edges"], found["brokers"], found["region servers"]) == (2, 3, 3)
    assert found["executors of ingest and watch list"] == 2


@given(DEMANDS)
def test_more_cameras_never_need_less(demand: Demand) -> None:
    """Of anything."""
    larger = Demand(demand.cameras * 2, demand.rate, demand.keep_days, demand.peak)
    less, more = counts(demand), counts(larger)
    assert all(more[what] >= count for what, count in less.items())


@given(DEMANDS)
def test_every_number_shows_its_sum(demand: Demand) -> None:
    """A person can check it."""
    for need in size(demand):
        assert need.count > 0
        assert any(sign in need.sum for sign in "×/")

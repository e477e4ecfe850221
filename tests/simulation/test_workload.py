"""The additional workloads are checked: each of these bugs is caught by the checker made for it."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from broker.log import retention
from broker.log.log import Log
from tests.simulation.membership import (
    Membership,
    Ownership,
    owned_in,
    spread_without_claims,
    subscription,
)
from tests.simulation.story import SeedRun
from tests.simulation.workload import Workload, draw

SEEDS = range(1, 25)
TROUBLE_S = 20.0


def complaints(workload: Workload) -> Iterator[str]:
    for seed in SEEDS:
        yield from SeedRun(seed, trouble_s=TROUBLE_S, workload=workload).run().wrong


@pytest.mark.slow
def test_records_deleted_before_their_time_are_caught(monkeypatch: pytest.MonkeyPatch):
    """The bug: retention deletes every closed segment, regardless of its age."""

    def all_closed(partition: Log, now_ms: int) -> int:
        whole = partition.config.deletes and partition.config.retention_ms >= 0
        return len(partition.segments.all) - 1 if whole else 0

    monkeypatch.setattr(retention, "_expired", all_closed)
    wrong = complaints(Workload(retention=True))
    assert any("before its time" in one for one in wrong)


@pytest.mark.slow
def test_a_compacted_topic_that_retention_deletes_from_is_caught(monkeypatch: pytest.MonkeyPatch):
    """The bug: retention ignores the policy and deletes a compacted topic by age."""
    monkeypatch.setattr(
        retention, "_expired", lambda partition, now_ms: len(partition.segments.all) - 1
    )
    wrong = complaints(Workload(compacted=True))
    assert any("rule 4 (unseen)" in one for one in wrong)


def test_two_owners_of_a_partition_in_one_generation_are_caught():
    """Covers also a share that changes within a generation and a partition whose owner never
    appeared."""
    heard: list[str] = []
    ownership = Ownership(heard.append)
    ownership.shared_out(4, [[("t", 0)], [("t", 1), ("t", 2)]])
    ownership.owns(4, "m0", [("t", 0)])
    assert ownership.without_owner() == [("t", 1), ("t", 2)]
    ownership.owns(4, "m1", [("t", 1), ("t", 2)])
    ownership.owns(4, "m1", [("t", 1), ("t", 2)])
    assert (ownership.without_owner(), heard) == ([], [])
    ownership.owns(4, "m1", [("t", 0)])
    assert [text.split(" ")[0] for text in heard] == ["m1", "t-0"]
    ownership.shared_out(5, [[("t", 0)]])  # lost with its coordinator before it was sent
    assert ownership.without_owner() == []


def test_what_a_cooperative_member_owns_goes_to_another_one_generation_later():
    """Its subscription names what it owns."""
    everything = [("t", 0), ("t", 1), ("t", 2), ("t", 3)]
    claimed = owned_in(subscription(["t", "other"], everything))
    assert claimed == everything
    first = spread_without_claims(everything, {"a": claimed, "b": owned_in(subscription(["t"]))})
    assert first == {"a": [("t", 0), ("t", 2)], "b": []}
    second = spread_without_claims(everything, first)
    assert second == {"a": [("t", 0), ("t", 2)], "b": [("t", 1), ("t", 3)]}


def test_each_kind_of_world_is_drawn_and_none_has_all():
    """Checked over the seeds that CI knows."""
    drawn = [draw(random.Random(f"kraft-{seed}/workload"), 3) for seed in range(1, 301)]
    parts = ("retention", "compacted", "growth", "short_lived", "throttled", "two_directories")
    for part in parts:
        assert 30 < sum(getattr(one, part) for one in drawn) < 150, part
    assert {one.membership for one in drawn} == set(Membership)
    assert not any(all(getattr(one, part) for part in parts) for one in drawn)

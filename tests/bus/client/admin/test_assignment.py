"""The balanced assignment: even, over racks, with few moves, the same every time."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from bus.client.admin.assignment import Assignment, NotAssignable, balanced, changed, moves

NO_RACKS: dict[int, str | None] = {1: None, 2: None, 3: None}


def spread(values: Counter[int]) -> int:
    return max(values.values()) - min(values.values())


def loads(assignment: Assignment, brokers: dict[int, str | None]) -> Counter[int]:
    counts = Counter(dict.fromkeys(brokers, 0))
    for replicas in assignment.values():
        counts.update(replicas)
    return counts


def test_a_balanced_cluster_is_left_alone():
    now = {("a", 0): [1, 2], ("a", 1): [2, 3], ("a", 2): [3, 1]}
    assert changed(now, balanced(now, NO_RACKS)) == {}


def test_a_new_broker_takes_its_share_and_no_more_is_copied():
    now = {("a", i): [i % 3 + 1, (i + 1) % 3 + 1] for i in range(12)}
    four = NO_RACKS | {4: None}
    then = balanced(now, four)
    assert loads(then, four) == {1: 6, 2: 6, 3: 6, 4: 6}
    assert moves(now, then) == 6
    assert Counter(replicas[0] for replicas in then.values()) == {1: 3, 2: 3, 3: 3, 4: 3}


def test_a_broker_that_goes_is_vacated():
    now = {("a", i): [i % 3 + 1, (i + 1) % 3 + 1] for i in range(6)}
    then = balanced(now, {1: None, 2: None})
    assert all(sorted(replicas) == [1, 2] for replicas in then.values())
    assert Counter(replicas[0] for replicas in then.values()) == {1: 3, 2: 3}


def test_leaders_are_evened_out_without_copying():
    now = {("a", i): [1, 2, 3] for i in range(6)}
    then = balanced(now, NO_RACKS)
    assert moves(now, then) == 0
    assert Counter(replicas[0] for replicas in then.values()) == {1: 2, 2: 2, 3: 2}


def test_replicas_of_a_partition_stand_in_different_racks():
    racks: dict[int, str | None] = {1: "north", 2: "north", 3: "south", 4: "south"}
    now = {("a", i): [1, 2] for i in range(4)}
    then = balanced(now, racks)
    assert all({racks[b] for b in replicas} == {"north", "south"} for replicas in then.values())
    assert spread(loads(then, racks)) <= 1


def test_the_replication_factor_is_raised_and_lowered():
    now = {("a", i): [i % 3 + 1] for i in range(3)}
    raised = balanced(now, NO_RACKS, replication_factor=3)
    assert all(sorted(replicas) == [1, 2, 3] for replicas in raised.values())
    lowered = balanced(raised, NO_RACKS, replication_factor=1)
    assert loads(lowered, NO_RACKS) == {1: 1, 2: 1, 3: 1}


def test_more_replicas_than_brokers_is_refused_with_the_way_out():
    with pytest.raises(NotAssignable, match="only 2 may be used"):
        balanced({("a", 0): [1, 2, 3]}, {1: None, 2: None})


def test_partitions_that_stay_count_as_load():
    others = {("b", i): [1] for i in range(4)}
    then = balanced({("a", 0): [1], ("a", 1): [1]}, {1: None, 2: None}, others=others)
    assert then == {("a", 0): [2], ("a", 1): [2]}


@pytest.mark.parametrize("seed", range(60))
def test_whatever_the_cluster_the_rules_hold(seed: int):
    """Distinct brokers, as many racks as there are, level loads without racks; asked again, the
    answer stays."""
    dice = random.Random(seed)
    brokers = list(range(1, dice.randint(1, 8) + 1))
    names = dice.randint(1, 4)
    racks = {b: f"rack-{dice.randint(1, names)}" if names > 1 else None for b in brokers}
    now = {
        (f"topic-{t}", p): dice.sample([*brokers, 90, 91], min(3, len(brokers)))
        for t in range(dice.randint(1, 4))
        for p in range(dice.randint(1, 12))
    }
    then = balanced(now, racks)
    assert then == balanced(now, racks)
    assert moves(then, balanced(then, racks)) == 0
    places = len({racks[b] or b for b in brokers})
    for place, replicas in then.items():
        assert len(set(replicas)) == len(replicas) == len(now[place])
        assert len({racks[b] or b for b in replicas}) == min(places, len(replicas))
    if names == 1:
        assert spread(loads(then, racks)) <= 1

"""New replicas are created a few per loop iteration, in their order, and at once for a request."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.clock.port import Clock
from broker.replica.creation_queue import (
    FETCHER_REFRESH_EVERY,
    ITERATION_S,
    MAX_RESTS,
    PER_ITERATION,
    REST_S,
    ReplicaCreationQueue,
)

LARGE = 3 * PER_ITERATION + 1


class LoopIterations:
    """A clock whose turns are taken by hand."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Any:
        assert delay_s in (0, REST_S)
        self.due.append(callback)
        return SimpleNamespace(cancel=lambda: self.due.remove(callback))

    def run_one(self) -> None:
        due, self.due = self.due, []
        for callback in due:
            callback()


class CreatedReplicas:
    """What a queue has made, and how often the leaders were asked after it."""

    def __init__(self) -> None:
        self.turns = LoopIterations()
        self.order: list[str] = []
        self.greeted: list[int] = []
        self.queue = ReplicaCreationQueue(
            cast(Clock, self.turns), lambda: self.greeted.append(len(self.order))
        )

    def put(self, index: int, state: str = "") -> None:
        self.queue.put(("t", index), lambda: self.order.append(f"{index}{state}"))

    def put_many(self, count: int) -> None:
        for index in range(count):
            self.put(index)

    def run(self) -> None:
        while self.turns.due:
            self.turns.run_one()


@pytest.fixture
def made() -> CreatedReplicas:
    return CreatedReplicas()


def test_a_small_topic_is_made_in_the_turn_that_names_it(made: CreatedReplicas) -> None:
    """What fits into one iteration is created without a wait."""
    made.put_many(PER_ITERATION)
    made.queue.drain()
    assert len(made.order) == PER_ITERATION
    assert made.greeted == [PER_ITERATION]


def test_a_large_topic_takes_several_turns_in_its_order(made: CreatedReplicas) -> None:
    """An iteration creates a fixed number at most; the order is that of the metadata."""
    made.put_many(LARGE)
    made.queue.drain()
    sizes = [len(made.order)]
    while made.turns.due:
        made.turns.run_one()
        sizes.append(len(made.order))
    assert sizes[:4] == [PER_ITERATION, 2 * PER_ITERATION, 3 * PER_ITERATION, LARGE]
    assert made.order == [str(index) for index in range(LARGE)]
    assert made.greeted == [LARGE]


def test_a_slow_disk_shortens_the_turn(made: CreatedReplicas) -> None:
    """The loop is given free in time, with at least one replica more each turn."""

    def make(index: int) -> None:
        made.turns.now += 0.6 * ITERATION_S
        made.order.append(str(index))

    for index in range(5):
        made.queue.put(("t", index), partial(make, index))
    made.queue.drain()
    assert made.order == ["0", "1"]
    made.queue.drain()
    assert made.order == ["0", "1"]
    made.run()
    assert made.order == ["0", "1", "2", "3", "4"]


def test_many_small_changes_of_one_turn_share_what_it_has_room_for(made: CreatedReplicas) -> None:
    """A thousand topics of one partition are no less work than one of a thousand."""
    for index in range(LARGE):
        made.put(index)
        made.queue.drain()
    assert len(made.order) == PER_ITERATION
    made.run()
    assert len(made.order) == LARGE


def test_a_later_turn_has_room_again(made: CreatedReplicas) -> None:
    """What one turn made does not count in the next."""
    made.put_many(PER_ITERATION)
    made.queue.drain()
    made.run()
    made.put(PER_ITERATION)
    made.queue.drain()
    assert made.order[-1] == str(PER_ITERATION)


def test_news_of_one_that_waits_take_its_place_and_keep_its_turn(made: CreatedReplicas) -> None:
    """Only the newest state of a replica that is not made yet counts."""
    made.put_many(LARGE)
    made.queue.drain()
    made.put(PER_ITERATION, "-new")
    made.run()
    assert made.order[PER_ITERATION] == f"{PER_ITERATION}-new"
    assert len(made.order) == LARGE


def test_a_deletion_in_between_ends_the_wait_and_a_new_one_follows_it(made: CreatedReplicas) -> None:
    """What is dropped is never made; what comes under its name afterwards is."""
    made.put_many(LARGE)
    made.queue.drain()
    made.queue.drop(("t", PER_ITERATION))
    assert ("t", PER_ITERATION) not in made.queue
    made.turns.run_one()
    made.put(PER_ITERATION, "-again")
    made.run()
    assert made.order[-1] == f"{PER_ITERATION}-again"
    assert str(PER_ITERATION) not in made.order


def test_one_that_is_asked_for_is_made_at_once_and_once(made: CreatedReplicas) -> None:
    """A request does not wait for the turn of what it is about."""
    made.put_many(LARGE)
    made.queue.drain()
    assert made.queue.create_now(("t", LARGE - 1))
    assert made.order[-1] == str(LARGE - 1)
    assert not made.queue.create_now(("t", LARGE - 1))
    made.run()
    assert sorted(made.order, key=int) == [str(index) for index in range(LARGE)]


def test_one_that_is_asked_for_while_another_is_made_counts_as_asked_for(made: CreatedReplicas) -> None:
    """`is_in_turn` distinguishes the two, also nested ones."""
    seen: list[tuple[str, bool]] = []

    def first() -> None:
        seen.append(("before", made.queue.is_draining))
        made.queue.create_now(("t", 1))
        seen.append(("after", made.queue.is_draining))

    made.queue.put(("t", 0), first)
    made.queue.put(("t", 1), lambda: seen.append(("asked", made.queue.is_draining)))
    made.queue.drain()
    assert seen == [("before", True), ("asked", False), ("after", True)]


def test_leaders_are_asked_in_large_lots(made: CreatedReplicas) -> None:
    """Not after each turn, and not only after thousands."""
    made.put_many(2 * FETCHER_REFRESH_EVERY + 1)
    made.queue.drain()
    made.run()
    assert made.greeted == [FETCHER_REFRESH_EVERY, 2 * FETCHER_REFRESH_EVERY, 2 * FETCHER_REFRESH_EVERY + 1]


def test_one_that_cannot_be_made_does_not_keep_the_others(made: CreatedReplicas) -> None:
    """The fault is reported, and the rest continues in the next loop iteration."""

    def fail() -> None:
        raise ValueError

    made.queue.put(("t", 0), fail)
    made.put(1)
    with pytest.raises(ValueError):
        made.queue.drain()
    made.run()
    assert made.order == ["1"]


def test_replicas_are_announced_where_requests_have_had_the_last_ones_made(
    made: CreatedReplicas,
) -> None:
    """What broke: those made by the queue before got no fetcher, and never were in sync again."""
    made.put_many(LARGE)
    made.queue.drain()
    for index in range(PER_ITERATION, LARGE):
        assert made.queue.create_now(("t", index))
    assert made.greeted == []
    made.run()
    assert made.greeted == [LARGE]


def test_nothing_is_made_after_the_stop(made: CreatedReplicas) -> None:
    """Neither what waited nor what comes later; no turn is left to be taken."""
    made.put_many(LARGE)
    made.queue.drain()
    made.queue.stop()
    assert not made.turns.due
    made.put(LARGE)
    made.queue.drain()
    assert len(made.queue) == 0
    assert len(made.order) == PER_ITERATION


def test_a_quorum_that_stores_has_the_turns_but_not_for_ever(made: CreatedReplicas) -> None:
    """What an election stores must not wait for replicas; they wait no longer than a bound."""
    made.put_many(LARGE)
    made.queue.drain()
    made.queue.is_quorum_storing = lambda: True
    for _ in range(MAX_RESTS):
        made.turns.run_one()
    assert len(made.order) == PER_ITERATION
    made.turns.run_one()
    assert len(made.order) == 2 * PER_ITERATION
    made.queue.is_quorum_storing = lambda: False
    made.run()
    assert len(made.order) == LARGE

"""New replicas are made a few per turn, in order, and at once when somebody asks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.clock.port import Clock
from broker.replica.new_replicas import (
    MAX_RESTS,
    PER_GREETING,
    PER_TURN,
    REST_S,
    TURN_S,
    NewReplicas,
)

LARGE = 3 * PER_TURN + 1


class Turns:
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

    def take(self) -> None:
        due, self.due = self.due, []
        for callback in due:
            callback()


class Made:
    """What a queue has made, and how often the leaders were asked after it."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.order: list[str] = []
        self.greeted: list[int] = []
        self.queue = NewReplicas(
            cast(Clock, self.turns), lambda: self.greeted.append(len(self.order))
        )

    def put(self, index: int, state: str = "") -> None:
        self.queue.put(("t", index), lambda: self.order.append(f"{index}{state}"))

    def put_many(self, count: int) -> None:
        for index in range(count):
            self.put(index)

    def run(self) -> None:
        while self.turns.due:
            self.turns.take()


@pytest.fixture
def made() -> Made:
    return Made()


def test_a_small_topic_is_made_in_the_turn_that_names_it(made: Made) -> None:
    """Nobody waits for what one turn has room for."""
    made.put_many(PER_TURN)
    made.queue.go_on()
    assert len(made.order) == PER_TURN
    assert made.greeted == [PER_TURN]


def test_a_large_topic_takes_several_turns_in_its_order(made: Made) -> None:
    """A turn makes so many and no more; the order is that of the metadata."""
    made.put_many(LARGE)
    made.queue.go_on()
    sizes = [len(made.order)]
    while made.turns.due:
        made.turns.take()
        sizes.append(len(made.order))
    assert sizes[:4] == [PER_TURN, 2 * PER_TURN, 3 * PER_TURN, LARGE]
    assert made.order == [str(index) for index in range(LARGE)]
    assert made.greeted == [LARGE]


def test_a_slow_disk_shortens_the_turn(made: Made) -> None:
    """The loop is given free in time, with at least one replica more each turn."""

    def make(index: int) -> None:
        made.turns.now += 0.6 * TURN_S
        made.order.append(str(index))

    for index in range(5):
        made.queue.put(("t", index), partial(make, index))
    made.queue.go_on()
    assert made.order == ["0", "1"]
    made.queue.go_on()
    assert made.order == ["0", "1"]
    made.run()
    assert made.order == ["0", "1", "2", "3", "4"]


def test_many_small_changes_of_one_turn_share_what_it_has_room_for(made: Made) -> None:
    """A thousand topics of one partition are no less work than one of a thousand."""
    for index in range(LARGE):
        made.put(index)
        made.queue.go_on()
    assert len(made.order) == PER_TURN
    made.run()
    assert len(made.order) == LARGE


def test_a_later_turn_has_room_again(made: Made) -> None:
    """What one turn made does not count in the next."""
    made.put_many(PER_TURN)
    made.queue.go_on()
    made.run()
    made.put(PER_TURN)
    made.queue.go_on()
    assert made.order[-1] == str(PER_TURN)


def test_news_of_one_that_waits_take_its_place_and_keep_its_turn(made: Made) -> None:
    """Only the newest state of a replica that is not made yet counts."""
    made.put_many(LARGE)
    made.queue.go_on()
    made.put(PER_TURN, "-new")
    made.run()
    assert made.order[PER_TURN] == f"{PER_TURN}-new"
    assert len(made.order) == LARGE


def test_a_deletion_in_between_ends_the_wait_and_a_new_one_follows_it(made: Made) -> None:
    """What is dropped is never made; what comes under its name afterwards is."""
    made.put_many(LARGE)
    made.queue.go_on()
    made.queue.drop(("t", PER_TURN))
    assert ("t", PER_TURN) not in made.queue
    made.turns.take()
    made.put(PER_TURN, "-again")
    made.run()
    assert made.order[-1] == f"{PER_TURN}-again"
    assert str(PER_TURN) not in made.order


def test_one_that_is_asked_for_is_made_at_once_and_once(made: Made) -> None:
    """A request does not wait for the turn of what it is about."""
    made.put_many(LARGE)
    made.queue.go_on()
    assert made.queue.make(("t", LARGE - 1))
    assert made.order[-1] == str(LARGE - 1)
    assert not made.queue.make(("t", LARGE - 1))
    made.run()
    assert sorted(made.order, key=int) == [str(index) for index in range(LARGE)]


def test_one_that_is_asked_for_while_another_is_made_counts_as_asked_for(made: Made) -> None:
    """`is_in_turn` tells the two apart, one within the other too."""
    seen: list[tuple[str, bool]] = []

    def first() -> None:
        seen.append(("before", made.queue.is_in_turn))
        made.queue.make(("t", 1))
        seen.append(("after", made.queue.is_in_turn))

    made.queue.put(("t", 0), first)
    made.queue.put(("t", 1), lambda: seen.append(("asked", made.queue.is_in_turn)))
    made.queue.go_on()
    assert seen == [("before", True), ("asked", False), ("after", True)]


def test_leaders_are_asked_in_large_lots(made: Made) -> None:
    """Not after each turn, and not only after thousands."""
    made.put_many(2 * PER_GREETING + 1)
    made.queue.go_on()
    made.run()
    assert made.greeted == [PER_GREETING, 2 * PER_GREETING, 2 * PER_GREETING + 1]


def test_one_that_cannot_be_made_does_not_keep_the_others(made: Made) -> None:
    """A fault is reported, and the rest goes on in the next turn."""

    def fail() -> None:
        raise ValueError

    made.queue.put(("t", 0), fail)
    made.put(1)
    with pytest.raises(ValueError):
        made.queue.go_on()
    made.run()
    assert made.order == ["1"]


def test_nothing_is_made_after_the_stop(made: Made) -> None:
    """Neither what waited nor what comes later; no turn is left to be taken."""
    made.put_many(LARGE)
    made.queue.go_on()
    made.queue.stop()
    assert not made.turns.due
    made.put(LARGE)
    made.queue.go_on()
    assert len(made.queue) == 0
    assert len(made.order) == PER_TURN


def test_a_quorum_that_stores_has_the_turns_but_not_for_ever(made: Made) -> None:
    """What an election stores must not wait for replicas; they wait no longer than a bound."""
    made.put_many(LARGE)
    made.queue.go_on()
    made.queue.is_quorum_storing = lambda: True
    for _ in range(MAX_RESTS):
        made.turns.take()
    assert len(made.order) == PER_TURN
    made.turns.take()
    assert len(made.order) == 2 * PER_TURN
    made.queue.is_quorum_storing = lambda: False
    made.run()
    assert len(made.order) == LARGE

"""Scheduling of connections: each gets its turn, brokers soon."""

from __future__ import annotations

from collections.abc import Callable

from broker.network.limits import ROUND_S, TURN_S
from broker.network.turns import Turns


class TurnsWorld:
    """A clock that work moves, and a loop whose rounds the test starts."""

    def __init__(self) -> None:
        self.now = 100.0
        self.asked: list[Callable[[], None]] = []
        self.turns = Turns(lambda: self.now, self.asked.append)
        self.order: list[str] = []

    def round(self) -> list[str]:
        """The loop comes round once; who worked."""
        self.order = []
        asked, self.asked[:] = list(self.asked), []
        for callback in asked:
            callback()
        return self.order


class Worker:
    """A connection whose every turn takes as long as is said."""

    def __init__(self, world: TurnsWorld, name: str, cost_s: float = TURN_S) -> None:
        self.world, self.name, self.cost_s = world, name, cost_s

    def run_turn(self, now: float) -> None:
        assert now == self.world.now
        self.world.order.append(self.name)
        self.world.now += self.cost_s


def test_those_with_more_to_do_take_turns_one_in_each_round() -> None:
    """Between two turns the sockets of all others are looked at."""
    world = TurnsWorld()
    for name in ("a", "b"):
        world.turns.wait_busy(world.turns.clients, Worker(world, name))
    assert [world.round() for _ in range(3)] == [["a"], ["b"], []]
    assert world.round() == []


def test_those_that_were_not_served_yet_go_first_until_the_round_is_over() -> None:
    """And the busy one is not forgotten for them."""
    world = TurnsWorld()
    clients, short = world.turns.clients, ROUND_S / 3
    world.turns.wait_busy(clients, Worker(world, "busy"))
    for name in "abcde":
        world.turns.wait_fresh(clients, Worker(world, name, short))
    first, second = world.round(), world.round()
    assert first[-1] == "busy"
    assert first[:-1] + second == list("abcde")
    assert len(first) in (4, 5)


def test_what_arrives_is_served_at_once_until_a_round_has_taken_too_long() -> None:
    """Then it waits for the next round of the loop; before that no request pays for accounting."""
    world = TurnsWorld()
    clients = world.turns.clients
    assert world.turns.may_work(clients, world.now)
    assert world.turns.may_work(clients, world.now + ROUND_S / 2)
    world.now += 2 * ROUND_S
    assert not world.turns.may_work(clients, world.now)
    assert len(world.asked) == 1
    world.round()
    assert world.turns.may_work(clients, world.now)


def test_brokers_are_served_in_a_round_in_which_clients_have_used_theirs_up() -> None:
    """And clients in a round that a client claiming to be a broker has used up."""
    world = TurnsWorld()
    clients, brokers = world.turns.clients, world.turns.brokers
    for used_up, other in ((clients, brokers), (brokers, clients)):
        assert world.turns.may_work(used_up, world.now)
        world.now += 2 * ROUND_S
        assert not world.turns.may_work(used_up, world.now)
        assert world.turns.may_work(other, world.now)
        world.now += 2 * ROUND_S
        world.round()
    for _ in range(100):
        world.turns.wait_busy(clients, Worker(world, "client"))
    world.turns.wait_busy(brokers, Worker(world, "broker"))
    assert world.round() == ["broker", "client"]


def test_nobody_overtakes_those_that_wait_already() -> None:
    """An arrival goes behind them."""
    world = TurnsWorld()
    world.turns.wait_fresh(world.turns.clients, Worker(world, "first"))
    assert not world.turns.may_work(world.turns.clients, world.now)

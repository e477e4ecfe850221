"""Scheduling of connections: each gets its turn, brokers soon."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from broker.network.limits import ROUND_S, TURN_S, UNKNOWN_ROUND_S
from broker.network.turns import Turns, UnknownClients


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


def unknown_queues(world: TurnsWorld) -> tuple[UnknownClients, UnknownClients]:
    return world.turns.unknown_clients, world.turns.unknown_brokers


def test_nothing_of_an_unknown_client_is_served_as_it_arrives() -> None:
    """However idle the broker is; and it keeps no known one from being served."""
    world = TurnsWorld()
    for unknown in unknown_queues(world):
        assert not world.turns.may_work(unknown, world.now)
        world.turns.wait_fresh(unknown, Worker(world, "unknown"))
    assert world.turns.may_work(world.turns.clients, world.now)
    assert world.round() == ["unknown", "unknown"]
    for unknown in unknown_queues(world):
        assert not world.turns.may_work(unknown, world.now)


def test_unknown_clients_wait_for_all_that_are_known_and_get_a_turn_in_every_round() -> None:
    """Also where known ones use up every round, and never come to an end."""
    world = TurnsWorld()
    clients = world.turns.clients
    for number in range(3):
        world.turns.wait_fresh(world.turns.unknown_clients, Worker(world, f"unknown {number}"))
    for number in range(3):
        for name in "abcde":
            world.turns.wait_fresh(clients, Worker(world, name, ROUND_S))
        world.turns.wait_busy(clients, Worker(world, "busy"))
        assert world.round() == ["abcde"[number], "busy", f"unknown {number}"]


def test_of_unknown_clients_few_work_in_one_round() -> None:
    """As many as begin before their time is over: those who come by the hundred delay nobody."""
    world = TurnsWorld()
    for _ in range(100):
        world.turns.wait_fresh(
            world.turns.unknown_clients, Worker(world, "step", UNKNOWN_ROUND_S / 4)
        )
    world.turns.wait_busy(world.turns.unknown_clients, Worker(world, "handshake"))
    rounds = [world.round() for _ in range(26)]
    assert [len(each) for each in rounds[:24]] == [4] * 24
    assert [name for each in rounds for name in each] == ["step"] * 100 + ["handshake"]


def test_an_error_of_one_unknown_client_stops_no_other() -> None:
    """Neither of its own class nor of the other."""

    class Broken:
        def run_turn(self, now: float) -> None:
            raise ZeroDivisionError

    world = TurnsWorld()
    for unknown in unknown_queues(world):
        world.turns.wait_busy(unknown, Broken())
        world.turns.wait_busy(unknown, Worker(world, "other"))
    served: list[str] = []
    for _ in range(4):
        try:
            served += world.round()
        except ZeroDivisionError:
            served += world.order
    assert served == ["other", "other"]


@pytest.mark.parametrize("story", range(20))
def test_whatever_comes_every_unknown_client_is_served_soon_and_in_order(
    story: int, dice: random.Random
) -> None:
    """No later than a round for each that was there before it; known ones of the same round first,
    and no round takes longer than its bounds and the last step of each kind."""
    world = TurnsWorld()
    turns = world.turns
    due: dict[str, int] = {}
    came = 0
    for number in range(100):
        for _ in range(dice.choice([0, 0, 1, 5, 30])):
            cost_s = dice.uniform(0, TURN_S)
            wait = dice.choice([turns.wait_fresh, turns.wait_busy])
            if dice.random() < 0.5:
                name = f"unknown {came}"
                due[name] = number + len(due) + 1
                wait(turns.unknown_clients, Worker(world, name, cost_s))
                came += 1
            else:
                wait(turns.clients, Worker(world, "known", cost_s))
        began = world.now
        served = world.round()
        assert world.now - began <= ROUND_S + TURN_S + TURN_S + UNKNOWN_ROUND_S + TURN_S
        unknown = [name for name in served if name != "known"]
        assert served[len(served) - len(unknown) :] == unknown
        assert unknown == list(due)[: len(unknown)]
        for name in unknown:
            assert number < due.pop(name), (story, name)

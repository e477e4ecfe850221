"""Requests of random values, of every API and version, at every kind of listener.

Each is answered, refused or costs its connection; none reaches a `check()`, which would end the
process, and none makes a timer, a task or another client's request fail later. Found so: names that
a version cannot write in its answer.
"""

from __future__ import annotations

import asyncio
import logging
import random

import pytest

from broker.handlers.context import CloseClient, Session
from broker.handlers.registry import SERVED, is_served, version_range
from broker.handlers.sides import Side
from broker.server.broker import Broker
from bus.errors import BusError
from bus.protocol.apis import APIS
from bus.protocol.frames import encode_request
from tests.bus.protocol.conftest import Codec, Maker, all_codecs
from tests.simulation.cluster import Cluster
from tests.simulation.world import World

ORDERS = frozenset({4, 5, 6})
"""A ZooKeeper controller's orders: whoever may send them says truly what the cluster is."""

ROUNDS = 5
GARBLED = 0.2
"""Share of the requests with one byte changed."""


@pytest.fixture(scope="module")
def requests() -> dict[str, Codec]:
    return {codec.message.name: codec for codec in all_codecs()}


def random_frame(key: int, dice: random.Random, requests: dict[str, Codec]) -> bytes:
    """A request of some version whose fields are drawn."""
    version = dice.randint(*version_range(key))
    maker = Maker(dice, small=dice.random() < 0.5)
    request = maker.message(requests[f"{APIS[key].name}Request"], version)
    frame = bytearray(b"".join(encode_request(key, version, 1, "x", request))[4:])
    if dice.random() < GARBLED:
        frame[dice.randrange(8, len(frame))] = dice.randrange(256)
    return bytes(frame)


class Hurled:
    """Sends random requests to one broker and notes which ones only their connection ends for."""

    def __init__(self, broker: Broker, dice: random.Random, requests: dict[str, Codec]) -> None:
        self._broker, self._dice, self._requests = broker, dice, requests
        self.stumbled: list[str] = []

    async def round(self) -> None:
        for key in SERVED:
            for side in self._broker.sides:
                if is_served(key, side) and key not in ORDERS:
                    self._send(key, side)
            await asyncio.sleep(0.01)

    def _send(self, key: int, side: Side) -> None:
        frame = memoryview(random_frame(key, self._dice, self._requests))
        hang_up = lambda: self.stumbled.append(APIS[key].name)  # noqa: E731
        session = Session("10.1.1.1", "PLAINTEXT", side=side, hang_up=hang_up)
        try:
            self._broker.rooms.dispatchers[side].dispatch(frame, session, lambda _: None)
        except (CloseClient, BusError):
            pass
        except Exception as error:
            self.stumbled.append(f"{APIS[key].name}: {error!r}")


@pytest.mark.parametrize("controller", ["alone", "kraft", "zookeeper"])
def test_random_requests_reach_no_check_and_fail_nothing_later(
    controller: str, requests: dict[str, Codec], dice: random.Random, seed: int
) -> None:
    """Every process lives, and no log has a trace."""
    logging.getLogger("broker").setLevel(logging.ERROR)
    world = World(seed)
    cluster = Cluster(world, 1 if controller == "alone" else 3, controller)
    stumbled: list[str] = []

    async def story() -> None:
        cluster.start()
        count = len(cluster.machines)
        assert await world.until(lambda: len(cluster.serving()) == count, 60)
        broker = cluster.machines[0].broker
        assert broker is not None
        hurled = Hurled(broker, dice, requests)
        for _ in range(ROUNDS):
            await hurled.round()
        await asyncio.sleep(30)  # what waits for its time
        stumbled.extend(hurled.stumbled)
        assert [len(machine.lives) for machine in cluster.machines] == [1] * count

    world.run(story())
    world.end()
    logging.getLogger("broker").setLevel(logging.NOTSET)
    assert (world.complaints, stumbled) == ([], []), f"seed {seed}"

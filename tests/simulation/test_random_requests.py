"""Requests of random values, of every API and version, at every kind of listener.

Each is answered, refused or closes its connection; none reaches a `check()`, which would end the
process, and none makes a timer, a task or another client's request fail later. These tests found
names that some versions cannot encode in their answer.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import suppress

import pytest

from broker.controller.kraft.transport.codec import TOPIC, TOPIC_ID
from broker.handlers.connection_control import NoConnection
from broker.handlers.listener_type import ListenerType
from broker.handlers.registry import SERVED, is_served, version_range
from broker.security.session import Session
from broker.server.broker import Broker
from bus.errors import BusError, CloseConnection
from bus.protocol.apis import APIS, ApiKey
from bus.protocol.frames import encode_request
from tests.bus.protocol.conftest import Codec, Maker, all_codecs
from tests.simulation.cluster import SimCluster
from tests.simulation.world import SimWorld

ORDERS = frozenset({4, 5, 6})
"""Requests of a ZooKeeper controller: their sender is trusted to know the cluster."""

ROUNDS = 5
GARBLED = 0.2
"""Share of the requests with one byte changed."""


@pytest.fixture(scope="module")
def requests() -> dict[str, Codec]:
    return {codec.message.name: codec for codec in all_codecs()}


def random_frame(key: int, dice: random.Random, requests: dict[str, Codec]) -> bytes:
    """A request of some version with random fields."""
    version = dice.randint(*version_range(key))
    maker = Maker(dice, small=dice.random() < 0.5)
    request = maker.message(requests[f"{APIS[key].name}Request"], version)
    frame = bytearray(b"".join(encode_request(key, version, 1, "x", request))[4:])
    if dice.random() < GARBLED:
        frame[dice.randrange(8, len(frame))] = dice.randrange(256)
    return bytes(frame)


QUORUM = tuple(
    int(key)
    for key in (
        ApiKey.FETCH, ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH,
        ApiKey.FETCH_SNAPSHOT, ApiKey.ADD_RAFT_VOTER, ApiKey.UPDATE_RAFT_VOTER,
        ApiKey.BROKER_HEARTBEAT, ApiKey.ALTER_PARTITION,
    )
)  # fmt: skip
NODES = (-1, 1, 2, 3, 7)


def as_of_the_quorum(asked: object, cluster_id: str, epoch: int, dice: random.Random) -> None:
    """Values that pass the first checks: this cluster, its metadata log, epochs near its own."""
    for name in getattr(asked, "__struct_fields__", ()):
        held = getattr(asked, name)
        if name == "cluster_id":
            setattr(asked, name, cluster_id)
        elif name in ("topic", "topic_name"):
            setattr(asked, name, TOPIC)
        elif name == "topic_id":
            setattr(asked, name, TOPIC_ID)
        elif name in ("partition", "partition_index"):
            setattr(asked, name, 0)
        elif "directory_id" in name:
            setattr(asked, name, bytes(16))
        elif "epoch" in name and isinstance(held, int):
            setattr(asked, name, max(-1, epoch + dice.choice((-2, -1, 0, 0, 0, 1, 2))))
        elif name.endswith("_id") and isinstance(held, int):
            setattr(asked, name, dice.choice(NODES))
        elif "offset" in name or "watermark" in name or name == "position":
            setattr(asked, name, dice.choice((-1, 0, 1, dice.randrange(60), 1 << 40)))
        elif isinstance(held, list):
            if name in ("topics", "partitions"):
                del held[1:]
            for one in held:
                as_of_the_quorum(one, cluster_id, epoch, dice)
        else:
            as_of_the_quorum(held, cluster_id, epoch, dice)


class AbortedConnection(NoConnection):
    """Reports a response that could not be written."""

    def __init__(self, session: Session, on_abort: Callable[[], None]) -> None:
        super().__init__(session)
        self._on_abort = on_abort

    def abort(self, reason: str) -> None:
        self._on_abort()


class Hurled:
    """Sends random requests to one broker and records which ones only close their connection."""

    def __init__(self, broker: Broker, dice: random.Random, requests: dict[str, Codec]) -> None:
        self._broker, self._dice, self._requests = broker, dice, requests
        self.stumbled: list[str] = []

    async def round(self) -> None:
        for key in SERVED:
            for side in self._broker.roles.listener_types:
                if is_served(key, side) and key not in ORDERS:
                    self._send(key, side)
            await asyncio.sleep(0.01)

    def to_the_quorum(self) -> None:
        components = self._broker.components
        for key in QUORUM:
            version = self._dice.randint(*version_range(key))
            maker = Maker(self._dice, small=True)
            request = maker.message(self._requests[f"{APIS[key].name}Request"], version)
            as_of_the_quorum(request, components.cluster_id, components.controller.epoch, self._dice)
            with suppress(ValueError, TypeError):  # a mixture that no client can encode
                frame = b"".join(encode_request(key, version, 1, "x", request))[4:]
                self._hand_over(key, ListenerType.CONTROLLER, frame)

    def _send(self, key: int, side: ListenerType) -> None:
        self._hand_over(key, side, random_frame(key, self._dice, self._requests))

    def _hand_over(self, key: int, side: ListenerType, data: bytes) -> None:
        frame = memoryview(data)
        connection = AbortedConnection(Session("10.1.1.1"), lambda: self.stumbled.append(APIS[key].name))
        try:
            self._broker.components.dispatchers[side].dispatch(frame, connection, lambda _: None)
        except (CloseConnection, BusError):
            pass
        except Exception as error:
            self.stumbled.append(f"{APIS[key].name}: {error!r}")


@pytest.mark.parametrize("controller", ["alone", "kraft", "zookeeper"])
def test_random_requests_reach_no_check_and_fail_nothing_later(
    controller: str, requests: dict[str, Codec], dice: random.Random, seed: int
) -> None:
    """Every process survives, and no log has a traceback."""
    logging.getLogger("broker").setLevel(logging.ERROR)
    world = SimWorld(seed)
    mirror = {"mirror.listener.name": "MIRROR"}
    cluster = SimCluster(world, 1 if controller == "alone" else 3, controller, mirror)
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
        await asyncio.sleep(30)  # requests that wait for a timeout
        stumbled.extend(hurled.stumbled)
        assert [len(machine.lives) for machine in cluster.machines] == [1] * count

    world.run(story())
    world.end()
    logging.getLogger("broker").setLevel(logging.NOTSET)
    assert (world.complaints, stumbled) == ([], []), f"seed {seed}"


QUORUM_ROUNDS = 25


def test_requests_between_nodes_of_a_quorum_reach_no_check(
    requests: dict[str, Codec], dice: random.Random, seed: int
) -> None:
    """A client at the controllers' listener may cause elections, but no process ends because of
    it."""
    world = SimWorld(seed)
    cluster = SimCluster(world, 3, "kraft")
    stumbled: list[str] = []
    epochs: list[int] = []

    async def story() -> None:
        cluster.start()
        assert await world.until(lambda: len(cluster.serving()) == 3, 60)
        for _ in range(QUORUM_ROUNDS):
            for _, broker in cluster.serving():
                hurled = Hurled(broker, dice, requests)
                hurled.to_the_quorum()
                stumbled.extend(hurled.stumbled)
                epochs.append(broker.components.controller.epoch)
            await asyncio.sleep(dice.choice((0.001, 0.05, 0.5)))
        await asyncio.sleep(10)
        assert [len(machine.lives) for machine in cluster.machines] == [1] * 3
        assert await world.until(lambda: bool(cluster.active_controllers()), 30)

    world.run(story())
    world.end()
    assert max(epochs) > min(epochs) + QUORUM_ROUNDS / 5, "they went through the first checks"
    assert (world.complaints, stumbled) == ([], []), f"seed {seed}"

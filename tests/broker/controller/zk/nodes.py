"""Brokers of a ZooKeeper cluster without their logs: session, znode, follower, controller.

Requests of a controller go directly to the other node's follower; everything else is real,
including the ensemble.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from broker.clock.real import RealClock
from broker.controller.decisions.decision import Decision
from broker.controller.decisions.partition_policy import PartitionPolicy
from broker.controller.decisions.topics import Defaults, NewTopic, TopicResult, create_topics
from broker.controller.zk import znodes
from broker.controller.zk.broker_znode import BrokerZnode, ensure_paths, get_or_create_cluster_id
from broker.controller.zk.channels import SendError
from broker.controller.zk.controller import ZooKeeperController
from broker.controller.zk.controller_requests import ControllerRequestHandler, LocalReplicas
from broker.controller.zk.kazoo_session import KazooSession
from broker.controller.zk.port import SessionState, WatchEvent, ZooKeeperSession
from broker.metadata.delta import Changes
from broker.metadata.image import Endpoint, MetadataImage, PartitionImage
from bus.errors import ErrorCode

DEADLINE_S = 60.0
TICK_S = 0.02
SESSION_MS = 6_000


class ZooKeeperTestBroker:
    """The ZooKeeper side of one broker."""

    def __init__(self, node_id: int, hosts: str, others: dict[int, ZooKeeperTestBroker]) -> None:
        self.node_id = node_id
        self.others = others
        self.clock = RealClock(seed=node_id)
        self.session: ZooKeeperSession = KazooSession(hosts, SESSION_MS)
        self.heard: list[Changes] = []
        self.deleted: list[tuple[str, int]] = []
        self.refuses_deletion = False
        self.unreachable = False
        self.controller = ZooKeeperController(
            node_id, self.session, self.clock, policy=PartitionPolicy, send=self.send,
            committed=lambda: self.follower.image,
        )  # fmt: skip
        self.follower = ControllerRequestHandler(
            node_id, self.session, self.clock, self.heard.append, self.controller.on_controller_epoch
        )
        self.member = BrokerZnode(
            self.session, self.clock,
            znodes.BrokerInfo(node_id, (Endpoint("PLAINTEXT", "127.0.0.1", 9000 + node_id),)),
            SESSION_MS, self.follower.replay, lambda: self.follower.image,
        )  # fmt: skip

    async def start(self) -> None:
        """Registers, takes part in the election and follows the controller."""
        self.session.start(self)
        await until(lambda: self.session.state is SessionState.CONNECTED)
        await ensure_paths(self.session)
        await get_or_create_cluster_id(self.session, "cluster")
        self.follower.image = MetadataImage(cluster_id="cluster")
        self.others[self.node_id] = self
        self.controller.start()
        self.follower.on_registered(await self.member.register())
        await self.member.read_configs()
        self.follower.open(LocalReplicas(self._delete, lambda topic, index: False))
        self.controller.elect()
        await asyncio.wait_for(self.follower.informed.wait(), DEADLINE_S)

    async def stop(self) -> None:
        """Closes the session, which removes the broker's znode immediately."""
        self.others.pop(self.node_id, None)
        self.follower.close()
        await self.controller.stop()
        await self.session.close()

    def on_session(self, state: SessionState, session_id: int) -> None:
        self.controller.on_session(state)

    def on_watch(self, event: WatchEvent) -> None:
        self.controller.on_watch(event)

    async def send(self, broker_id: int, key: int, body: object) -> Any:
        other = self.others.get(broker_id)
        if other is None or other.unreachable:
            raise SendError(f"{broker_id} is not here")
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        other.follower.handle(body, answer.set_result)
        return await answer

    def _delete(self, topic: str, index: int) -> ErrorCode:
        if self.refuses_deletion:
            return ErrorCode.KAFKA_STORAGE_ERROR
        self.deleted.append((topic, index))
        return ErrorCode.NONE

    def partition(self, topic: str, index: int = 0) -> PartitionImage | None:
        """The partition in this broker's image."""
        held = self.follower.image.topics.get(topic)
        return None if held is None or index >= len(held.partitions) else held.partitions[index]

    async def write(self, decide: Callable[[MetadataImage], Decision[Any]]) -> Any:
        """Makes one decision; returns its reply or the error."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.controller.write(decide, answer.set_result, answer.set_result)
        return await asyncio.wait_for(answer, DEADLINE_S)

    async def create(self, *topics: NewTopic) -> tuple[TopicResult, ...]:
        """Creates topics as a client does."""
        found: tuple[TopicResult, ...] = await self.write(
            lambda image: create_topics(image, topics, Defaults(1, 1), _ids(self.clock), 0)
        )
        return found


def _ids(clock: RealClock) -> Iterator[bytes]:
    return (clock.new_uuid() for _ in count())


async def until(holds: Callable[[], object]) -> None:
    """Waits until it holds; fails after a generous time."""
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, "it did not come to hold in time"
        await asyncio.sleep(TICK_S)

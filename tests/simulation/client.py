"""A simulated client of the cluster: metadata, one connection per broker, a record of all it does.

In: bootstrap addresses. Out: answers of the requested broker, `WireError` if there is none.
Never: a retry that the caller did not request.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from tests.checker.history import HistoryEvent
from tests.simulation.clock import SimClock
from tests.simulation.dialect import OWN, Dialect, ListedTopic, PartitionRef
from tests.simulation.network import ProcessNetwork
from tests.simulation.wire import WireConnection, WireError

REQUEST_TIMEOUT_S = 5.0


@dataclass(slots=True)
class KnownPartition:
    """What the client believes of a partition."""

    leader_id: int
    leader_epoch: int


@dataclass(slots=True)
class KnownTopic:
    """What the client believes of a topic."""

    name: str
    topic_id: bytes
    partitions: dict[int, KnownPartition] = field(default_factory=dict)


@dataclass(slots=True)
class ClientSurroundings:
    """What every client of a world has."""

    clock: SimClock
    network: ProcessNetwork
    dice: random.Random
    bootstrap: Sequence[tuple[str, int]]
    record: Callable[[HistoryEvent], None]
    next_op: Callable[[], int]
    trace: Callable[[str], None]
    complain: Callable[[str], None]
    """Reports an answer that no client of a correct cluster may get."""
    deleted_before: Callable[[str, int], int]
    """Records of a topic's partition below this offset were deleted, or may be; 0 if none were."""


class Client:
    """Connections and metadata of one client."""

    def __init__(self, name: str, around: ClientSurroundings, dialect: Dialect = OWN) -> None:
        self.name = name
        self.dialect = dialect
        self.around = around
        self.clock, self.dice = around.clock, around.dice
        self.topics: dict[str, KnownTopic] = {}
        self.brokers: dict[int, tuple[str, int]] = {}
        self.controller_id = -1
        self._wires: dict[tuple[str, int], WireConnection] = {}
        self._opening: dict[tuple[str, int], asyncio.Lock] = {}

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms()

    async def ask(
        self, node_id: int, key: ApiKey, body: Any, *, timeout_s: float = REQUEST_TIMEOUT_S
    ) -> Any:
        """Sends a request to one broker; -1 means any."""
        return await (await self.wire(node_id)).ask(key, body, timeout_s=timeout_s)

    async def wire(self, node_id: int) -> WireConnection:
        """The connection to a broker, opened if there is none."""
        return await self._wire_to(self._address(node_id))

    def _address(self, node_id: int) -> tuple[str, int]:
        if node_id >= 0:
            if node_id not in self.brokers:
                raise WireError(f"broker {node_id} is not known")
            return self.brokers[node_id]
        known = [self.brokers[n] for n in sorted(self.brokers)] or list(self.around.bootstrap)
        if self.dice.random() < 0.3:  # all known brokers may be dead
            known = list(self.around.bootstrap)
        return known[self.dice.randrange(0, len(known))]

    async def _wire_to(self, address: tuple[str, int]) -> WireConnection:
        lock = self._opening.setdefault(address, asyncio.Lock())
        async with lock:
            wire = self._wires.get(address)
            if wire is None or wire.lost:
                wire = await self.dialect.open(self.around.network, *address, self.name)
                self._wires[address] = wire
            return wire

    async def refresh(self, names: Sequence[str]) -> None:
        """Requests the metadata of topics; missing topics are left out."""
        said = await self.ask(-1, ApiKey.METADATA, self.dialect.metadata(names))
        answer = self.dialect.read_metadata(said)
        self.brokers = {one.node_id: (one.host, one.port) for one in answer.brokers}
        self.controller_id = answer.controller_id
        for topic in answer.topics:
            if topic.error_code:
                if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    self.topics.pop(topic.name, None)
                continue
            self._update_topic(topic)

    async def refresh_quietly(self, names: Sequence[str]) -> None:
        """Does what `refresh` does, but ignores a missing answer."""
        with suppress(WireError):
            await self.refresh(names)

    def _update_topic(self, topic: ListedTopic) -> None:
        """Accepts only leader epochs that are not older, since a broker may lag behind
        (KIP-320)."""
        view = self.topics.get(topic.name)
        if view is None or view.topic_id != topic.topic_id:
            view = self.topics[topic.name] = KnownTopic(topic.name, topic.topic_id)
        for one in topic.partitions:
            known = view.partitions.get(one.index)
            if known is None or one.leader_epoch >= known.leader_epoch:
                view.partitions[one.index] = KnownPartition(one.leader_id, one.leader_epoch)

    async def leader(self, topic: str, partition: int) -> tuple[KnownTopic, int]:
        """The topic and the partition's leader; requests metadata once. Raises WireError."""
        view = self.topics.get(topic)
        if view is None or view.partitions.get(partition, NOBODY).leader_id < 0:
            await self.refresh([topic])
            view = self.topics.get(topic)
        if view is None:
            raise WireError(f"no topic {topic}")
        leader = view.partitions.get(partition, NOBODY).leader_id
        if leader < 0:
            raise WireError(f"{topic}-{partition} has no leader")
        return view, leader

    def place(self, topic: str, partition: int) -> PartitionRef:
        """A reference to the partition; an unknown topic has no id yet."""
        view = self.topics.get(topic)
        return PartitionRef(topic, bytes(16) if view is None else view.topic_id, partition)

    def forget_leader(self, topic: str, partition: int) -> None:
        """Forgets a wrong leader, so that metadata are requested before the next request."""
        view = self.topics.get(topic)
        if view is not None and partition in view.partitions:
            view.partitions[partition].leader_id = -1

    async def close(self) -> None:
        """Closes all connections."""
        for wire in self._wires.values():
            wire.drop()


NOBODY = KnownPartition(-1, -1)

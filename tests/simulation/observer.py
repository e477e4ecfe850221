"""Polls all brokers from outside and complains about states that must never occur.

In: the cluster. Out: complaints: two leaders in one epoch, two controllers in one epoch, epochs or
watermarks that go back, an in-sync replica without acknowledged data. Never: a change of anything;
a broker's own claims never prove that it is right.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tests.checker.history import Ack, HistoryEvent, SendEvent
from tests.simulation.cluster import SimCluster

EVERY_S = 0.1
MOST_COMPLAINTS = 20

Key = tuple[str, int]


class Observer:
    """Invariant: all remembered values were true of some broker at some time."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self._leaders: dict[tuple[bytes, int, int], int] = {}
        self._controllers: dict[int, int] = {}
        self._quorum_leaders: dict[int, int] = {}
        self._epochs: dict[tuple[str, bytes, int], tuple[int, int]] = {}
        self._replicas: dict[tuple[str, bytes, int], Any] = {}
        self._watermarks: dict[tuple[str, bytes, int], int] = {}
        self._acknowledged: dict[Key, int] = {}
        self._newest: dict[Key, tuple[int, int]] = {}
        self._events_read = 0
        self._sends: dict[int, SendEvent] = {}
        self._lost_power: dict[tuple[int, Key], None] = {}
        self._reported: set[str] = set()
        self.also: list[Callable[[], None]] = []
        """Further checks to run each time."""

    async def run(self) -> None:
        """Polls for ever."""
        while True:
            self.check()
            await asyncio.sleep(EVERY_S)

    def check(self) -> None:
        """Checks everything once."""
        self._read_history()
        for machine, controller in self.cluster.active_controllers():
            if not machine.paused:
                self._controller(machine.node_id, controller.epoch)
        for node_id, epoch in self.cluster.quorum_leaders():
            first = self._quorum_leaders.setdefault(epoch, node_id)
            if first != node_id:
                self._complain(f"two leaders of the quorum in epoch {epoch}: {first}, {node_id}")
        for machine, partition in self.cluster.partitions():
            life = machine.process.life.name if machine.process else ""
            self._partition(machine.node_id, life, partition)
        self._in_sync()
        for look in self.also:
            look()

    def on_power_loss(self, node_id: int) -> None:
        """Its replicas may lack records until they have left the in-sync set or caught up."""
        for key in self._acknowledged:
            self._lost_power[node_id, key] = None

    # --- checks ----------------------------------------------------------------------------------

    def _controller(self, node_id: int, epoch: int) -> None:
        first = self._controllers.setdefault(epoch, node_id)
        if first != node_id:
            self._complain(f"two controllers in epoch {epoch}: {first} and {node_id}")

    def _partition(self, node_id: int, life: str, partition: Any) -> None:
        name, identity = f"{partition.topic}-{partition.index}", (partition.topic_id, partition.index)
        epoch = partition.leader_epoch
        if partition.is_leader:
            first = self._leaders.setdefault((*identity, epoch), node_id)
            if first != node_id:
                self._complain(f"two leaders of {name} in epoch {epoch}: {first} and {node_id}")
        key = life, *identity
        if self._replicas.get(key) is not partition:  # created again, as after a move away and back
            self._replicas[key] = partition
            self._epochs.pop(key, None)
            self._watermarks.pop(key, None)
        before = self._epochs.get(key)
        now = (epoch, partition.partition_epoch)
        if before is not None and (now[0] < before[0] or now[1] < before[1]):
            self._complain(f"{life}: epochs of {name} went back from {before} to {now}")
        self._epochs[key] = now
        watermark = partition.high_watermark
        if watermark < self._watermarks.get(key, 0):
            self._complain(
                f"{life}: the watermark of {name} went back from {self._watermarks[key]} to "
                f"{watermark}"
            )
        self._watermarks[key] = watermark

    def _in_sync(self) -> None:
        """Checks that every replica in the leader's in-sync set has all acknowledged records. A
        leader is checked only if no broker has been seen with newer metadata."""
        replicas: dict[tuple[int, Key], Any] = {}
        leaders: dict[Key, tuple[tuple[int, int], Any]] = {}
        for machine, partition in self.cluster.partitions():
            key = partition.topic, partition.index
            replicas[machine.node_id, key] = partition
            rank = partition.leader_epoch, partition.partition_epoch
            self._newest[key] = max(rank, self._newest.get(key, rank))
            if partition.is_leader and not machine.paused:
                leaders[key] = rank, partition
        for key, (rank, partition) in leaders.items():
            if rank == self._newest[key]:
                self._members(key, set(partition.isr), replicas)

    def _members(self, key: Key, in_sync: set[int], replicas: dict[tuple[int, Key], Any]) -> None:
        end = self._acknowledged.get(key, 0)
        for machine in self.cluster.machines:
            member = machine.node_id
            replica = replicas.get((member, key))
            if replica is None:
                continue
            has = replica.log.end_offset
            if (member, key) in self._lost_power:
                if member not in in_sync or has >= end:
                    del self._lost_power[member, key]
            elif member in in_sync and has < end:
                self._complain(
                    f"broker {member} is in sync on {key[0]}-{key[1]} up to {has}, acknowledged "
                    f"is up to {end}"
                )

    def _read_history(self) -> None:
        """Reads the acknowledgements that clients got since the last check."""
        history = self.world.history
        while self._events_read < len(history):
            self._note_event(history[self._events_read])
            self._events_read += 1

    def _note_event(self, event: HistoryEvent) -> None:
        if isinstance(event, SendEvent):
            self._sends[event.op] = event
        elif isinstance(event, Ack) and event.offset >= 0:
            send = self._sends[event.op]
            if send.acks == -1:
                key = send.topic, send.partition
                self._acknowledged[key] = max(self._acknowledged.get(key, 0), event.offset + 1)

    def _complain(self, text: str) -> None:
        if text not in self._reported and len(self._reported) < MOST_COMPLAINTS:
            self._reported.add(text)
            self.world.complain(text)



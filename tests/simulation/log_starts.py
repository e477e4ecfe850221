"""Checks what retention deletes: only what is old enough, and nothing above the log's start.

In: the cluster, polled repeatedly. Out: an event `deleted` per step of a leader's log start, for
the rules, and a complaint if an acknowledged record went before its time. Never: the broker's word
for how old a record is; its age is the time since its producer sent it.
"""

from __future__ import annotations

from tests.checker.history import Ack, Deleted, SendEvent
from tests.simulation.clock import EPOCH_MS
from tests.simulation.cluster import SimCluster
from tests.simulation.workload import AGED, RETENTION_MS

Key = tuple[str, int]


class LogStarts:
    """Invariant: `_starts` is the highest log start seen of a leader, by partition."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._starts: dict[Key, int] = {}
        self._sends: dict[int, SendEvent] = {}
        self._sent_ms: dict[Key, dict[int, int]] = {}
        self._read = 0

    def check(self) -> None:
        """Records and checks where the logs begin now."""
        self._read_history()
        for machine, partition in self._cluster.partitions():
            key = partition.topic, partition.index
            if partition.topic == AGED and partition.is_leader and not machine.paused:
                start = partition.log.log_start_offset
                if start > self._starts.get(key, 0):
                    self._raised(key, self._starts.get(key, 0), start)

    def _raised(self, key: Key, before: int, start: int) -> None:
        topic, index = key
        self._starts[key] = start
        now_ms = EPOCH_MS + int(self._world.now_s * 1000)
        self._world.record(Deleted(at_ms=now_ms, topic=topic, partition=index, before=start))
        latest_ms = now_ms + max(m.most_ahead_ms for m in self._cluster.machines) - RETENTION_MS
        for offset, sent_ms in self._sent_ms.get(key, {}).items():
            if before <= offset < start and sent_ms > latest_ms:
                self._world.complain(
                    f"{topic}-{index} begins at {start}: offset {offset} was deleted "
                    f"{sent_ms - latest_ms} ms before its time"
                )

    def _read_history(self) -> None:
        history = self._world.history
        while self._read < len(history):
            event = history[self._read]
            self._read += 1
            if isinstance(event, SendEvent) and event.topic == AGED:
                self._sends[event.op] = event
            elif isinstance(event, Ack) and event.op in self._sends and event.offset >= 0:
                send = self._sends[event.op]
                sent = self._sent_ms.setdefault((send.topic, send.partition), {})
                sent[event.offset] = send.at_ms

"""Reports in which log directories replicas lie (AssignReplicasToDirs, 73; KIP-858), and decides
which storage errors take a directory offline (KIP-112).
"""

from __future__ import annotations

import logging

from broker.clock.port import Clock
from broker.clock.tasks import OnDemandTask
from broker.disk.port import DiskError
from broker.log.errors import LogError, is_disk_full
from broker.replica.partition import Partition
from broker.replica.port import ClusterAccess
from bus.client.wire.errors import PeerError
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryDataInRequest,
    PartitionDataInRequest,
    TopicDataInRequest,
)

log = logging.getLogger("broker.replica")

REQUEST_TIMEOUT_MS = 30_000
"""No request waits for it; only the controller's knowledge of directories is delayed."""

RETRY_MS = 500
"""Kafka begins with 500 ms too; a fenced broker gets STALE_BROKER_EPOCH meanwhile."""

MAX_ASSIGNMENTS = 2_250
"""Replicas in one request, as Kafka's limit."""


def takes_directory_offline(partition: Partition, error: LogError) -> bool:
    """Whether a storage error means that the directory is lost until a restart.

    A full disk under a partition that has replicas elsewhere goes offline, so that they take over.
    Without other replicas that would only make it worse: the append fails, and succeeds again when
    there is room. Damaged bytes are an error for their reader only: the disk has not refused
    anything, and the other partitions are unaffected.
    """
    if not isinstance(error.__cause__, DiskError):
        return False
    if is_disk_full(error):
        return len(partition.replicas) > 1
    return True


class AssignmentsManager:
    """Reports replicas' directories to the controller. Invariant: one request at a time."""

    def __init__(self, broker_id: int, clock: Clock, cluster: ClusterAccess) -> None:
        self._broker_id = broker_id
        self._clock = clock
        self._cluster = cluster
        self._waiting: dict[tuple[bytes, int], bytes] = {}
        self._task = OnDemandTask(clock, "assign-replicas-to-dirs", self._run)

    def assign(self, topic_id: bytes, index: int, directory_id: bytes) -> None:
        """Report that the replica lies there."""
        self._waiting[topic_id, index] = directory_id
        self._task.ensure_running()

    async def stop(self) -> None:
        """Stop reporting."""
        await self._task.stop()

    async def _run(self) -> None:
        await self._clock.sleep(0)
        while self._waiting:
            batch = dict(list(self._waiting.items())[:MAX_ASSIGNMENTS])
            if await self._send(batch):
                for key, directory_id in batch.items():
                    if self._waiting.get(key) == directory_id:
                        del self._waiting[key]
            else:
                await self._clock.sleep(RETRY_MS / 1000)

    async def _send(self, batch: dict[tuple[bytes, int], bytes]) -> bool:
        request = assignment_request(self._broker_id, self._cluster.broker_epoch(), batch)
        try:
            response: AssignReplicasToDirsResponse = await self._cluster.controllers.request(
                ApiKey.ASSIGN_REPLICAS_TO_DIRS, request, timeout_ms=REQUEST_TIMEOUT_MS
            )
        except PeerError as error:
            log.info("directories of %d replicas were not reported: %s", len(batch), error)
            return False
        if response.error_code:
            log.info("directories refused: %s", ErrorCode.of(response.error_code).name)
        return not response.error_code


def assignment_request(
    broker_id: int, broker_epoch: int, batch: dict[tuple[bytes, int], bytes]
) -> AssignReplicasToDirsRequest:
    """The wire form, by directory and topic."""
    directories: dict[bytes, dict[bytes, TopicDataInRequest]] = {}
    for (topic_id, index), directory_id in batch.items():
        topics = directories.setdefault(directory_id, {})
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = TopicDataInRequest(topic_id=topic_id, partitions=[])
        topic.partitions.append(PartitionDataInRequest(partition_index=index))
    return AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=broker_epoch,
        directories=[
            DirectoryDataInRequest(id=directory_id, topics=list(topics.values()))
            for directory_id, topics in directories.items()
        ],
    )

"""A simulated operator: creates, grows and deletes topics, moves replicas, elects leaders.

In: what to do. Out: whether it was accepted. Never: a retry of what was refused for a reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from bus.protocol.generated.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from bus.protocol.generated.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from bus.protocol.generated.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from bus.protocol.generated.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from bus.protocol.generated.delete_topics import DeleteTopicsRequest, DeleteTopicState
from bus.protocol.generated.elect_leaders import ElectLeadersRequest, TopicPartitions
from bus.protocol.generated.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.checker.history import Deleted
from tests.simulation.client import Client, ClientSurroundings
from tests.simulation.wire import WireError

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
TIMEOUT_S = 10.0
SETTLED = {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.ELECTION_NOT_NEEDED}


class SimAdmin:
    """One operator."""

    def __init__(self, name: str, around: ClientSurroundings) -> None:
        self.client = Client(name, around)
        self.around = around

    async def create(
        self, topic: str, partitions: int, replicas: int, configs: dict[str, str]
    ) -> bool:
        """Creates a topic; returns whether it exists afterwards."""
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=topic, num_partitions=partitions, replication_factor=replicas,
                    configs=[CreatableTopicConfig(name=k, value=v) for k, v in configs.items()],
                )
            ],
            timeout_ms=8000,
        )  # fmt: skip
        return await self._do(ApiKey.CREATE_TOPICS, request, lambda a: a.topics[0].error_code)

    async def create_on(self, topic: str, brokers: Sequence[int], configs: dict[str, str]) -> bool:
        """Creates a topic of one partition on these brokers, the first of them preferred."""
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=topic, num_partitions=-1, replication_factor=-1,
                    assignments=[
                        CreatableReplicaAssignment(partition_index=0, broker_ids=list(brokers))
                    ],
                    configs=[CreatableTopicConfig(name=k, value=v) for k, v in configs.items()],
                )
            ],
            timeout_ms=8000,
        )  # fmt: skip
        return await self._do(ApiKey.CREATE_TOPICS, request, lambda a: a.topics[0].error_code)

    async def create_surely(self, topic: str, partitions: int, replicas: int,
                            configs: dict[str, str], until: float) -> bool:
        """Retries `create_on` until it succeeds or the time is over."""
        while self.client.clock.monotonic() < until:
            if await self.create(topic, partitions, replicas, configs):
                return True
            await asyncio.sleep(0.3)
        return False

    async def delete(self, topic: str) -> bool:
        """Delete a topic."""
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=topic)], topic_names=[topic], timeout_ms=8000
        )
        return await self._do(ApiKey.DELETE_TOPICS, request, lambda a: a.responses[0].error_code)

    async def grow(self, topic: str, partitions: int) -> bool:
        """Adds partitions."""
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=topic, count=partitions, assignments=None)],
            timeout_ms=8000,
        )
        return await self._do(ApiKey.CREATE_PARTITIONS, request, lambda a: a.results[0].error_code)

    async def reassign(self, topic: str, partition: int, replicas: Sequence[int] | None) -> bool:
        """Moves a partition; None cancels."""
        wanted = None if replicas is None else list(replicas)
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=8000,
            topics=[
                ReassignableTopic(
                    name=topic,
                    partitions=[ReassignablePartition(partition_index=partition, replicas=wanted)],
                )
            ],
        )
        return await self._do(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS, request,
            lambda a: a.error_code or a.responses[0].partitions[0].error_code,
        )  # fmt: skip

    async def move_directory(self, node: int, topic: str, partition: int, directory: str) -> bool:
        """Move a broker's replica to one of its log directories."""
        request = AlterReplicaLogDirsRequest(
            [AlterReplicaLogDir(directory, [AlterReplicaLogDirTopic(topic, [partition])])]
        )
        try:
            await self.client.refresh([])
            answer = await self.client.ask(node, ApiKey.ALTER_REPLICA_LOG_DIRS, request)
        except WireError:
            return False
        return bool(answer.results[0].partitions[0].error_code == 0)

    async def elect_preferred(self, topic: str, partitions: list[int]) -> bool:
        """Elects the preferred leaders."""
        request = ElectLeadersRequest(
            election_type=0, timeout_ms=8000,
            topic_partitions=[TopicPartitions(topic=topic, partitions=partitions)],
        )  # fmt: skip
        return await self._do(ApiKey.ELECT_LEADERS, request, lambda a: a.error_code)

    async def delete_records(self, topic: str, partition: int, before: int) -> bool:
        """Deletes records below `before`. The event precedes the request: the answer may be
        lost."""
        self.around.record(
            Deleted(at_ms=self.client.now_ms, topic=topic, partition=partition, before=before)
        )
        request = DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name=topic,
                    partitions=[DeleteRecordsPartition(partition_index=partition, offset=before)],
                )
            ],
            timeout_ms=5000,
        )
        try:
            _, leader = await self.client.leader(topic, partition)
            answer = await self.client.ask(leader, ApiKey.DELETE_RECORDS, request)
        except WireError:
            self.client.forget_leader(topic, partition)
            return False
        if answer.topics[0].partitions[0].error_code:
            self.client.forget_leader(topic, partition)  # another one may lead
            return False
        return True

    async def configure(self, topic: str, name: str, value: str) -> bool:
        """Set one key of a topic."""
        return await self._configure(TOPIC_RESOURCE, topic, {name: value})

    async def throttle(self, topic: str, bytes_per_second: int) -> bool:
        """Limits the rate at which brokers copy a topic to replicas out of sync."""
        sides = ("leader", "follower")
        rates = {f"{side}.replication.throttled.rate": str(bytes_per_second) for side in sides}
        replicas = {f"{side}.replication.throttled.replicas": "*" for side in sides}
        return await self._configure(BROKER_RESOURCE, "", rates) and await self._configure(
            TOPIC_RESOURCE, topic, replicas
        )

    async def _configure(self, kind: int, name: str, values: dict[str, str]) -> bool:
        changes = [AlterableConfig(name=k, config_operation=0, value=v) for k, v in values.items()]
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
            ]
        )
        return await self._do(
            ApiKey.INCREMENTAL_ALTER_CONFIGS, request, lambda a: a.responses[0].error_code
        )

    async def _do(self, key: ApiKey, request: Any, code_of: Any) -> bool:
        try:
            await self.client.refresh([])
            answer = await self.client.ask(-1, key, request, timeout_s=TIMEOUT_S)
        except WireError:
            return False
        return ErrorCode(code_of(answer)) in SETTLED

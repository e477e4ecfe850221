"""Changes to a cluster: topics, moves, elections, configurations, ACLs, voters.

In: a `SyncClient`. Out: nothing, or a word per partition. Raises BusError with the cluster's
own code and words. Never: a decision; what to change is said by the caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from bus.client.admin.config_resources import BROKER_RESOURCES, ConfigChanges
from bus.client.admin.queries import raise_for_error
from bus.client.model import TopicPartition
from bus.client.wire.sync_client import SyncClient
from bus.errors import ErrorCode
from bus.limits import CLIENT_REQUEST_TIMEOUT_MS
from bus.protocol.acls import AclBinding
from bus.protocol.apis import ApiKey
from bus.protocol.generated import (
    add_raft_voter,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    create_partitions,
    create_topics,
    delete_acls,
    delete_topics,
    elect_leaders,
    incremental_alter_configs,
    remove_raft_voter,
)
from bus.protocol.generated import create_acls as create_acls_api


class ElectionType(IntEnum):
    """Who may become leader: the first replica if it is in sync, or any living one (loses data)."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """What became of one partition; `code` NONE is well."""

    topic_partition: TopicPartition
    code: ErrorCode
    message: str


def create_topic(
    client: SyncClient,
    name: str,
    *,
    partitions: int = -1,
    replication_factor: int = -1,
    assignment: Mapping[int, Sequence[int]] | None = None,
    configs: Mapping[str, str] | None = None,
    validate_only: bool = False,
) -> None:
    """Create one topic; -1 is what the brokers' configuration says."""
    wanted = create_topics.CreatableTopic(
        name=name,
        num_partitions=-1 if assignment else partitions,
        replication_factor=-1 if assignment else replication_factor,
        assignments=[
            create_topics.CreatableReplicaAssignment(index, list(replicas))
            for index, replicas in sorted((assignment or {}).items())
        ],
        configs=[create_topics.CreatableTopicConfig(k, v) for k, v in (configs or {}).items()],
    )
    body = create_topics.CreateTopicsRequest([wanted], CLIENT_REQUEST_TIMEOUT_MS, validate_only)
    result = client.request_controller(ApiKey.CREATE_TOPICS, body).topics[0]
    raise_for_error(result.error_code, result.error_message)


def add_partitions(
    client: SyncClient, name: str, count: int, new: Sequence[Sequence[int]] | None = None
) -> None:
    """Raise the number of partitions to `count`; `new` are the replicas of the new ones."""
    given = [create_partitions.CreatePartitionsAssignment(list(one)) for one in new or ()]
    topic = create_partitions.CreatePartitionsTopic(name, count, given or None)
    body = create_partitions.CreatePartitionsRequest([topic], CLIENT_REQUEST_TIMEOUT_MS)
    result = client.request_controller(ApiKey.CREATE_PARTITIONS, body).results[0]
    raise_for_error(result.error_code, result.error_message)


def delete_topic(client: SyncClient, name: str) -> None:
    """Delete one topic."""
    body = delete_topics.DeleteTopicsRequest(
        topics=[delete_topics.DeleteTopicState(name=name)],
        topic_names=[name],
        timeout_ms=CLIENT_REQUEST_TIMEOUT_MS,
    )
    result = client.request_controller(ApiKey.DELETE_TOPICS, body).responses[0]
    raise_for_error(result.error_code, result.error_message or name)


def reassign(
    client: SyncClient, wanted: Mapping[TopicPartition, Sequence[int] | None]
) -> list[PartitionResult]:
    """Begin moves, or cancel those of partitions whose wanted replicas are None."""
    by_topic: dict[str, list[alter_partition_reassignments.ReassignablePartition]] = {}
    for (topic, index), replicas in sorted(wanted.items(), key=lambda item: item[0]):
        by_topic.setdefault(topic, []).append(
            alter_partition_reassignments.ReassignablePartition(
                index, None if replicas is None else list(replicas)
            )
        )
    body = alter_partition_reassignments.AlterPartitionReassignmentsRequest(
        timeout_ms=CLIENT_REQUEST_TIMEOUT_MS,
        topics=[
            alter_partition_reassignments.ReassignableTopic(name, partitions)
            for name, partitions in by_topic.items()
        ],
    )
    answer = client.request_controller(ApiKey.ALTER_PARTITION_REASSIGNMENTS, body)
    raise_for_error(answer.error_code, answer.error_message)
    return [
        PartitionResult(
            TopicPartition(topic.name, p.partition_index),
            ErrorCode.of(p.error_code),
            p.error_message or "",
        )
        for topic in answer.responses
        for p in topic.partitions
    ]


def move_log_dirs(
    client: SyncClient, wanted: Mapping[tuple[TopicPartition, int], str]
) -> list[PartitionResult]:
    """Have replicas, named by partition and broker, lie in these directories.

    REPLICA_NOT_AVAILABLE: the broker has no such replica yet and makes it there when it gets one.
    """
    outcomes = []
    for broker in sorted({broker for _, broker in wanted}):
        dirs: dict[str, dict[str, list[int]]] = {}
        for ((topic, index), replica), path in sorted(wanted.items()):
            if replica == broker:
                dirs.setdefault(path, {}).setdefault(topic, []).append(index)
        body = alter_replica_log_dirs.AlterReplicaLogDirsRequest(
            [
                alter_replica_log_dirs.AlterReplicaLogDir(
                    path,
                    [
                        alter_replica_log_dirs.AlterReplicaLogDirTopic(name, indexes)
                        for name, indexes in topics.items()
                    ],
                )
                for path, topics in dirs.items()
            ]
        )
        answer = client.request_node(broker, ApiKey.ALTER_REPLICA_LOG_DIRS, body)
        outcomes += [
            PartitionResult(
                TopicPartition(topic.topic_name, p.partition_index),
                ErrorCode.of(p.error_code),
                f"broker {broker}: {ErrorCode.of(p.error_code).text}",
            )
            for topic in answer.results
            for p in topic.partitions
        ]
    return outcomes


def elect(
    client: SyncClient, kind: ElectionType, places: Iterable[TopicPartition] | None
) -> list[PartitionResult]:
    """Hold elections for these partitions, or for all; one outcome per partition."""
    asked: list[elect_leaders.TopicPartitions] | None = None
    if places is not None:
        by_topic: dict[str, list[int]] = {}
        for topic, index in sorted(places):
            by_topic.setdefault(topic, []).append(index)
        asked = [elect_leaders.TopicPartitions(name, found) for name, found in by_topic.items()]
    body = elect_leaders.ElectLeadersRequest(kind, asked, CLIENT_REQUEST_TIMEOUT_MS)
    answer = client.request_controller(ApiKey.ELECT_LEADERS, body)
    raise_for_error(answer.error_code, None)
    return [
        PartitionResult(
            TopicPartition(topic.topic, p.partition_id),
            ErrorCode.of(p.error_code),
            p.error_message or "",
        )
        for topic in answer.replica_election_results
        for p in topic.partition_result
    ]


def alter_configs_request(
    resources: Mapping[tuple[int, str], ConfigChanges], *, validate_only: bool = False
) -> incremental_alter_configs.IncrementalAlterConfigsRequest:
    """All of it in one request."""
    return incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                kind,
                name,
                [
                    incremental_alter_configs.AlterableConfig(key, change, value)
                    for key, change, value in changes
                ],
            )
            for (kind, name), changes in resources.items()
        ],
        validate_only=validate_only,
    )


def alter_configs(
    client: SyncClient,
    resources: Mapping[tuple[int, str], ConfigChanges],
    *,
    validate_only: bool = False,
) -> None:
    """Change single keys. What one broker alone can change (loggers) is asked from that broker."""
    for (kind, name), changes in resources.items():
        body = alter_configs_request({(kind, name): changes}, validate_only=validate_only)
        if kind in BROKER_RESOURCES and name:
            answer = client.request_node(int(name), ApiKey.INCREMENTAL_ALTER_CONFIGS, body)
        else:
            answer = client.request_controller(ApiKey.INCREMENTAL_ALTER_CONFIGS, body)
        result = answer.responses[0]
        raise_for_error(result.error_code, result.error_message)


def create_acls(client: SyncClient, acls: Iterable[AclBinding]) -> None:
    """Raises BusError where one is refused."""
    request = create_acls_api.CreateAclsRequest(
        [create_acls_api.AclCreation(*each) for each in acls]
    )
    answer = client.request_controller(ApiKey.CREATE_ACLS, request)
    for result in answer.results:
        raise_for_error(result.error_code, result.error_message)


def delete_acl(client: SyncClient, acl: AclBinding) -> bool:
    """Whether there was this one. Raises BusError where it is refused."""
    request = delete_acls.DeleteAclsRequest([delete_acls.DeleteAclsFilter(*acl)])
    answer = client.request_controller(ApiKey.DELETE_ACLS, request)
    [result] = answer.filter_results
    raise_for_error(result.error_code, result.error_message)
    for removed in result.matching_acls:
        raise_for_error(removed.error_code, removed.error_message)
    return bool(result.matching_acls)


def add_voter(
    client: SyncClient,
    cluster_id: str,
    voter_id: int,
    directory_id: bytes,
    listeners: Sequence[tuple[str, str, int]],
) -> None:
    """Make a caught-up observer a voter of the metadata quorum (KIP-853)."""
    body = add_raft_voter.AddRaftVoterRequest(
        cluster_id=cluster_id,
        timeout_ms=CLIENT_REQUEST_TIMEOUT_MS,
        voter_id=voter_id,
        voter_directory_id=directory_id,
        listeners=[add_raft_voter.Listener(*one) for one in listeners],
    )
    answer = client.request_controller(ApiKey.ADD_RAFT_VOTER, body)
    raise_for_error(answer.error_code, answer.error_message)


def remove_voter(client: SyncClient, cluster_id: str, voter_id: int, directory_id: bytes) -> None:
    """Take a voter out of the metadata quorum (KIP-853)."""
    body = remove_raft_voter.RemoveRaftVoterRequest(cluster_id, voter_id, directory_id)
    answer = client.request_controller(ApiKey.REMOVE_RAFT_VOTER, body)
    raise_for_error(answer.error_code, answer.error_message)

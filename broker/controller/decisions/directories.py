"""Decisions about log directories: which replica lies where, which directories are lost.

In: the image, what a broker says. Out: records, and an error per partition. Never: a file.
Kafka: ReplicationControlManager.handleAssignReplicasToDirs, handleDirectoriesOffline (KIP-858).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker.controller.decisions.brokers import broker_of_epoch
from broker.controller.decisions.decision import Decision
from broker.controller.decisions.leadership import (
    Pair,
    election_context,
    leader_and_isr_changes,
    partitions_in_isr,
)
from broker.controller.decisions.partition_change import TargetState, change_partition
from broker.controller.decisions.partition_policy import PartitionPolicy
from broker.metadata.image import MetadataImage
from broker.metadata.versions import CORDONED_LEVEL
from bus.errors import ErrorCode
from bus.protocol.generated.metadata_records import BrokerRegistrationChangeRecord

PartitionId = tuple[bytes, int]
"""Topic id and partition."""

Assigned = Mapping[tuple[bytes, PartitionId], ErrorCode]
"""What became of each (directory, partition)."""


def assign_directories(
    image: MetadataImage,
    policy: PartitionPolicy,
    broker_id: int,
    epoch: int,
    assigned: Sequence[tuple[bytes, PartitionId]],
) -> Decision[tuple[ErrorCode, Assigned]]:
    """A broker reports in which directory each replica lies."""
    broker = broker_of_epoch(image, broker_id, epoch)
    if broker is None:
        return Decision((), (ErrorCode.STALE_BROKER_EPOCH, {}))
    records: list[object] = []
    lost: list[Pair] = []
    errors: dict[tuple[bytes, PartitionId], ErrorCode] = {}
    for directory, (topic_id, index) in assigned:
        topic = image.topic_by_id(topic_id)
        partition = image.partition(topic_id, index)
        key = (directory, (topic_id, index))
        if topic is None:
            errors[key] = ErrorCode.UNKNOWN_TOPIC_ID
        elif partition is None:
            errors[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif broker_id not in partition.replicas:
            errors[key] = ErrorCode.NOT_LEADER_OR_FOLLOWER
        else:
            errors[key] = ErrorCode.NONE
            target = TargetState(directories={broker_id: directory})
            record = change_partition(
                topic_id, partition, target, election_context(image, policy, topic, partition)
            )
            if record is not None:
                records.append(record)
            if not broker.has_online_directory(directory):
                lost.append((topic, partition))
    records += leader_and_isr_changes(
        image, policy, (pair for pair in lost if broker_id in pair[1].isr), remove=broker_id
    )
    return Decision(tuple(records), (ErrorCode.NONE, errors))


def handle_offline_directories(
    image: MetadataImage, policy: PartitionPolicy, broker_id: int, offline: Sequence[bytes]
) -> tuple[object, ...]:
    """Directories of a broker failed: its replicas there lead nothing and are in sync nowhere."""
    broker = image.brokers[broker_id]
    gone = [one for one in broker.log_dirs if one in offline]
    if not gone:
        return ()
    pairs = (
        pair for pair in partitions_in_isr(image, broker_id)
        if pair[1].directory_of(broker_id) in gone
    )
    changes = leader_and_isr_changes(image, policy, pairs, remove=broker_id)
    left = [one for one in broker.log_dirs if one not in gone]
    record = BrokerRegistrationChangeRecord(
        broker_id=broker_id, broker_epoch=broker.epoch, log_dirs=left
    )
    return (*changes, record)


def cordon(
    image: MetadataImage, broker_id: int, cordoned: Sequence[bytes] | None
) -> tuple[object, ...]:
    """Directories of a broker stop, or resume, accepting new replicas (KIP-1066)."""
    broker = image.brokers[broker_id]
    if cordoned is None or image.metadata_version < CORDONED_LEVEL:
        return ()
    if tuple(sorted(cordoned)) == broker.cordoned_log_dirs:
        return ()
    return (
        BrokerRegistrationChangeRecord(
            broker_id=broker_id, broker_epoch=broker.epoch, cordoned_log_dirs=list(cordoned)
        ),
    )

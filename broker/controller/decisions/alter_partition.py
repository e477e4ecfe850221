"""The decision on AlterPartition (56): a leader changes the in-sync set.

In: the image, the policy, the leader's request. Out: records, and per partition its present state
or an error. Never: which replicas lag; the leader measured that. Kafka:
ReplicationControlManager.alterPartition (KIP-497, KIP-841, KIP-903, KIP-966).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from broker.controller.decisions.brokers import broker_of_epoch
from broker.controller.decisions.decision import Decision, RefusedError
from broker.controller.decisions.leadership import election_context
from broker.controller.decisions.partition_change import Election, TargetState, change_partition
from broker.controller.decisions.partition_policy import PartitionPolicy
from broker.metadata.delta import MetadataDelta
from broker.metadata.image import LeaderRecoveryState, MetadataImage, PartitionImage
from bus.errors import ErrorCode

ANY_EPOCH = -1
"""A follower whose broker epoch the leader does not know (an old protocol version)."""

PartitionId = tuple[bytes, int]


@dataclass(frozen=True, slots=True)
class IsrChange:
    """A leader's request for one partition; the in-sync set with the brokers' epochs."""

    topic_id: bytes
    index: int
    leader_epoch: int
    partition_epoch: int
    isr: Mapping[int, int]
    recovery: LeaderRecoveryState = LeaderRecoveryState.RECOVERED


@dataclass(frozen=True, slots=True)
class IsrResult:
    """The partition as it is after the change, or why there was none."""

    topic_id: bytes
    index: int
    error: ErrorCode = ErrorCode.NONE
    partition: PartitionImage | None = None


Reply = tuple[ErrorCode, tuple[IsrResult, ...]]


def alter_partitions(
    image: MetadataImage,
    policy: PartitionPolicy,
    broker_id: int,
    broker_epoch: int,
    changes: Sequence[IsrChange],
) -> Decision[Reply]:
    """Each partition independently. A leader that is no longer registered changes nothing."""
    if broker_of_epoch(image, broker_id, broker_epoch) is None:
        return Decision((), (ErrorCode.STALE_BROKER_EPOCH, ()))
    records: list[object] = []
    changed: list[tuple[IsrChange, PartitionImage]] = []
    results: dict[PartitionId, IsrResult] = {}
    for change in changes:
        key = (change.topic_id, change.index)
        if key in results:
            results[key] = IsrResult(*key, error=ErrorCode.INVALID_REQUEST)
            continue
        try:
            partition = _checked(image, broker_id, change)
        except RefusedError as error:
            results[key] = IsrResult(*key, error=error.refusal.error)
            continue
        record = _change(image, policy, change, partition)
        results[key] = IsrResult(*key, partition=partition)
        if record is not None:
            records.append(record)
            changed.append((change, partition))
    _apply_results(image, records, changed, broker_id, results)
    return Decision(tuple(records), (ErrorCode.NONE, tuple(results.values())))


def _checked(image: MetadataImage, broker_id: int, change: IsrChange) -> PartitionImage:
    if image.topic_by_id(change.topic_id) is None:
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_ID, "no such topic")
    partition = image.partition(change.topic_id, change.index)
    if partition is None:
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such partition")
    _check_epochs(partition, broker_id, change)
    _check_isr(image, partition, broker_id, change)
    return partition


def _check_epochs(partition: PartitionImage, broker_id: int, change: IsrChange) -> None:
    """A leader with newer metadata than this controller has a stale controller."""
    if (
        change.leader_epoch > partition.leader_epoch
        or change.partition_epoch > partition.partition_epoch
    ):
        raise RefusedError(ErrorCode.NOT_CONTROLLER, "the leader has newer metadata")
    if change.leader_epoch < partition.leader_epoch:
        raise RefusedError(ErrorCode.FENCED_LEADER_EPOCH, "another leader epoch has begun")
    if partition.leader != broker_id:
        raise RefusedError(ErrorCode.INVALID_REQUEST, "only the leader may change the set")
    if change.partition_epoch < partition.partition_epoch:
        raise RefusedError(ErrorCode.INVALID_UPDATE_VERSION, "the partition has changed since")


def _check_isr(
    image: MetadataImage, partition: PartitionImage, broker_id: int, change: IsrChange
) -> None:
    if not change.isr or not set(change.isr) <= set(partition.replicas):
        raise RefusedError(ErrorCode.INVALID_REQUEST, "the set names others than replicas")
    if broker_id not in change.isr:
        raise RefusedError(ErrorCode.INVALID_REQUEST, "the set must have its leader in it")
    if change.recovery is LeaderRecoveryState.RECOVERING:
        if len(change.isr) > 1:
            raise RefusedError(
                ErrorCode.INVALID_REQUEST, "a leader that recovers is alone in sync"
            )
        if partition.recovery is LeaderRecoveryState.RECOVERED:
            raise RefusedError(ErrorCode.INVALID_REQUEST, "it has recovered already")
    for replica, epoch in sorted(change.isr.items()):
        broker = image.brokers.get(replica)
        if broker is None or not broker.is_active or epoch not in (ANY_EPOCH, broker.epoch):
            raise RefusedError(ErrorCode.INELIGIBLE_REPLICA, f"{replica} may not be in sync")


def _change(
    image: MetadataImage, policy: PartitionPolicy, change: IsrChange, partition: PartitionImage
) -> object | None:
    topic = image.topic_by_id(change.topic_id)
    if topic is None:
        return None
    unclean = policy.unclean_allowed(image, topic.name)
    target = TargetState(
        isr=tuple(one for one in change.isr),
        recovery=change.recovery,
        election=Election.UNCLEAN if unclean else Election.ONLINE,
    )
    return change_partition(
        topic.topic_id, partition, target, election_context(image, policy, topic, partition)
    )


def _apply_results(
    image: MetadataImage,
    records: Sequence[object],
    changed: Sequence[tuple[IsrChange, PartitionImage]],
    broker_id: int,
    results: dict[PartitionId, IsrResult],
) -> None:
    """The partitions after the records. If the change completed a reassignment and moved the
    leadership, the old leader is notified by NEW_LEADER_ELECTED."""
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    after = delta.apply(image.offset, image.epoch).image
    for change, _ in changed:
        key = (change.topic_id, change.index)
        partition = after.partition(*key)
        moved = partition is None or partition.leader != broker_id
        error = ErrorCode.NEW_LEADER_ELECTED if moved else ErrorCode.NONE
        results[key] = IsrResult(*key, error=error, partition=partition)

"""The decision on AlterPartition (56): a leader says which replicas are in sync.

In: the image, the rules, the leader's request. Out: records, and per partition the state that
holds now or an error. Never: who lags; the leader measured that. Kafka:
ReplicationControlManager.alterPartition (KIP-497, KIP-841, KIP-903, KIP-966).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from broker.controller.decisions.brokers import broker_of_epoch
from broker.controller.decisions.decision import Decision, RefusedError
from broker.controller.decisions.leadership import terms_for
from broker.controller.decisions.partition_change import Election, Wanted, change_partition
from broker.controller.decisions.rules import Rules
from broker.metadata.delta import MetadataDelta
from broker.metadata.image import MetadataImage, PartitionImage, Recovery
from bus.errors import ErrorCode

ANY_EPOCH = -1
"""A follower whose broker epoch the leader does not know (an old protocol version)."""

Place = tuple[bytes, int]


@dataclass(frozen=True, slots=True)
class IsrChange:
    """What a leader asks for one partition; the in-sync set with the brokers' epochs."""

    topic_id: bytes
    index: int
    leader_epoch: int
    partition_epoch: int
    isr: Mapping[int, int]
    recovery: Recovery = Recovery.RECOVERED


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
    rules: Rules,
    broker_id: int,
    broker_epoch: int,
    changes: Sequence[IsrChange],
) -> Decision[Reply]:
    """Each partition for itself. A leader that is not registered any more changes nothing."""
    if broker_of_epoch(image, broker_id, broker_epoch) is None:
        return Decision((), (ErrorCode.STALE_BROKER_EPOCH, ()))
    records: list[object] = []
    changed: list[tuple[IsrChange, PartitionImage]] = []
    results: dict[Place, IsrResult] = {}
    for change in changes:
        place = (change.topic_id, change.index)
        if place in results:
            results[place] = IsrResult(*place, error=ErrorCode.INVALID_REQUEST)
            continue
        try:
            partition = _checked(image, broker_id, change)
        except RefusedError as error:
            results[place] = IsrResult(*place, error=error.refusal.error)
            continue
        record = _change(image, rules, change, partition)
        results[place] = IsrResult(*place, partition=partition)
        if record is not None:
            records.append(record)
            changed.append((change, partition))
    _take_results(image, records, changed, broker_id, results)
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
    """A leader that knows more than this controller talks to a controller that was replaced."""
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
    if change.recovery is Recovery.RECOVERING:
        if len(change.isr) > 1:
            raise RefusedError(
                ErrorCode.INVALID_REQUEST, "a leader that recovers is alone in sync"
            )
        if partition.recovery is Recovery.RECOVERED:
            raise RefusedError(ErrorCode.INVALID_REQUEST, "it has recovered already")
    for replica, epoch in sorted(change.isr.items()):
        broker = image.brokers.get(replica)
        if broker is None or not broker.is_active or epoch not in (ANY_EPOCH, broker.epoch):
            raise RefusedError(ErrorCode.INELIGIBLE_REPLICA, f"{replica} may not be in sync")


def _change(
    image: MetadataImage, rules: Rules, change: IsrChange, partition: PartitionImage
) -> object | None:
    topic = image.topic_by_id(change.topic_id)
    if topic is None:
        return None
    unclean = rules.unclean_allowed(image, topic.name)
    wanted = Wanted(
        isr=tuple(one for one in change.isr),
        recovery=change.recovery,
        election=Election.UNCLEAN if unclean else Election.ONLINE,
    )
    return change_partition(
        topic.topic_id, partition, wanted, terms_for(image, rules, topic, partition)
    )


def _take_results(
    image: MetadataImage,
    records: Sequence[object],
    changed: Sequence[tuple[IsrChange, PartitionImage]],
    broker_id: int,
    results: dict[Place, IsrResult],
) -> None:
    """What the records make of each partition. If the change completed a reassignment and moved
    the leadership, the old leader hears that it is not the leader any more."""
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    after = delta.apply(image.offset, image.epoch).image
    for change, _ in changed:
        place = (change.topic_id, change.index)
        partition = after.partition(*place)
        moved = partition is None or partition.leader != broker_id
        error = ErrorCode.NEW_LEADER_ELECTED if moved else ErrorCode.NONE
        results[place] = IsrResult(*place, error=error, partition=partition)

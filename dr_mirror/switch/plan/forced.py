"""What a forced switch can say of what is missing, and how it ends open transactions. Pure.

In: the mirror's last status, the ends at the new primary, its producers. Out: statements by
partition, markers. Never: a number for what was not heard: what the former primary acknowledged
after it was heard last is not known before it returns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bus.client.model import TopicPartition
from bus.contracts.mirror_status import MirrorStatus
from bus.protocol.generated.describe_producers import ProducerState
from bus.records.batch import assign
from bus.records.control import end_txn_marker
from dr_mirror.report.plan.switch_report import PartitionStatement

NO_LEADER_EPOCH = 0


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction without a marker in the log of a partition."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    first_offset: int

    @property
    def text(self) -> str:
        """For a person."""
        topic, index = self.partition
        return f"{topic}-{index}: the transaction of producer {self.producer_id}"


def heard_partitions(status: MirrorStatus | None, former_id: str) -> list[PartitionStatement]:
    """The last ends that the mirror heard of the former primary; none where it copied from another
    one, or has no status."""
    if status is None or status.source_cluster_id != former_id:
        return []
    return [
        PartitionStatement(topic=one.topic, partition=one.partition, heard_end=one.source_end,
                           heard_ms=one.source_heard_ms)
        for one in status.partitions
        if one.source_end >= 0 and one.source_heard_ms >= 0
    ]  # fmt: skip


def forced_partitions(
    ends: Mapping[TopicPartition, int],
    heard: Iterable[PartitionStatement],
    aborted: Iterable[OpenTransaction],
) -> list[PartitionStatement]:
    """Per partition the end at the new primary and what is known to be missing behind it."""
    last = {TopicPartition(one.topic, one.partition): one for one in heard}
    transactions: dict[TopicPartition, list[str]] = defaultdict(list)
    for each in aborted:
        transactions[each.partition].append(
            f"aborted: producer {each.producer_id} from offset {each.first_offset}"
        )
    found = []
    for partition, end in ends.items():
        one = last.get(partition)
        heard_end = -1 if one is None else one.heard_end
        found.append(PartitionStatement(
            topic=partition.topic, partition=partition.partition, end=end, heard_end=heard_end,
            heard_ms=-1 if one is None else one.heard_ms, known_missing=max(heard_end - end, 0),
            detail="; ".join(transactions[partition]),
        ))  # fmt: skip
    return found


def open_transactions(
    partition: TopicPartition, producers: Iterable[ProducerState]
) -> list[OpenTransaction]:
    """Of the answer of DescribeProducers for one partition."""
    return [
        OpenTransaction(partition, one.producer_id, one.producer_epoch, one.coordinator_epoch,
                        one.current_txn_start_offset)
        for one in producers
        if one.current_txn_start_offset >= 0
    ]  # fmt: skip


def abort_marker(one: OpenTransaction, offset: int, now_ms: int) -> bytes:
    """The batch at `offset` that ends it."""
    batch = end_txn_marker(
        commit=False, producer_id=one.producer_id, producer_epoch=one.producer_epoch,
        coordinator_epoch=max(one.coordinator_epoch, 0), timestamp_ms=now_ms,
    )  # fmt: skip
    assign(batch, 0, offset, NO_LEADER_EPOCH)
    return bytes(batch)

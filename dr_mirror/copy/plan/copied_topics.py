"""What is copied now, as the newest comparison of topics left it. Pure.

In: plans of topics, partitions on their way, brokers that live. Out: what the parts beside the
records ask of it. Never: a change; `Mirror` and `PartitionTasks` write the fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bus.client.model import TopicPartition
from dr_mirror.copy.plan.partition_copy import PartitionCopy
from dr_mirror.topics.topics import MirrorTopic, TopicPlan


class HeldOffsets(NamedTuple):
    """What the target holds of a partition and has acknowledged: [log_start, log_end)."""

    log_start: int
    log_end: int


class CopiedTopics:
    """All is named as at the source. Invariant: `copies` has partitions of `plans` that copy."""

    def __init__(self) -> None:
        self.plans: Mapping[str, TopicPlan] = {}
        self.copies: dict[TopicPartition, PartitionCopy] = {}
        self.at_target: Mapping[str, MirrorTopic] = {}
        self.source_nodes: Sequence[int] = ()
        self.target_nodes: Sequence[int] = ()

    @property
    def names(self) -> frozenset[str]:
        """Topics that are copied."""
        return frozenset(name for name, plan in self.plans.items() if plan.state.copies)

    def is_compacted(self, topic: str) -> bool:
        """Whether its batches may be rewritten at the target."""
        at_target = self.at_target.get(topic)
        return at_target is not None and at_target.is_compacted

    def lag_bytes(self) -> int:
        """Of records that the target lacks."""
        return sum(copy.lag_bytes for copy in self.copies.values())

    def confirmed(self) -> dict[TopicPartition, int]:
        """Ends that the target has acknowledged, only of what is being copied: where a partition
        stands still, its end may belong to another log of the source."""
        return {
            partition: copy.acknowledged for partition, copy in self.copies.items() if copy.copying
        }

    def held(self) -> dict[TopicPartition, HeldOffsets]:
        """What a target with the same offsets holds of every partition that is copied."""
        return {
            partition: HeldOffsets(copy.target_log_start, copy.acknowledged)
            for partition, copy in self.copies.items()
            if copy.acknowledged >= 0
        }

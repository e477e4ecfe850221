"""A target of ours, which takes the same bytes at the same offsets: a sender for each leader.

In: partitions to copy. Out: how each begins, whom its batches go to. Core: `CopiedTopics`. Never: a
state of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from bus.client.model import GroupOffsets, TopicPartition
from dr_mirror.copy.context import CopyContext
from dr_mirror.copy.partition_starter import PartitionStarter
from dr_mirror.copy.plan.copied_topics import HeldOffsets
from dr_mirror.copy.plan.partition_copy import PartitionCopy
from dr_mirror.copy.target_sender import TargetSender


class AppendTarget:
    """A `CopyTarget`."""

    def __init__(self, context: CopyContext) -> None:
        self._context = context
        self._starter = PartitionStarter(context)
        self._senders: dict[int, TargetSender] = {}

    async def start(self, copy: PartitionCopy) -> None:
        """Begin to copy a partition. Raises NotStarted."""
        is_compacted = self._context.copied.is_compacted(copy.partition.topic)
        await self._starter.start(copy, copy.target_topic_id, is_compacted=is_compacted)

    def sender(self, copy: PartitionCopy) -> TargetSender:
        """To the broker that leads it now."""
        sender = self._senders.get(copy.target_leader)
        if sender is None:
            channel = self._context.target.channel(copy.target_leader, "append", pipelined=True)
            sender = self._senders[copy.target_leader] = TargetSender(self._context, channel)
        return sender

    def held(self) -> Mapping[TopicPartition, HeldOffsets]:
        """What groups' offsets may lie in."""
        return self._context.copied.held()

    def translated(self, groups: Mapping[str, GroupOffsets]) -> Mapping[str, GroupOffsets]:
        """Offsets are the source's."""
        return groups

    def close(self) -> None:
        """End all requests."""
        for sender in self._senders.values():
            sender.close()

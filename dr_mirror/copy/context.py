"""What the parts of one mirror share: settings, budgets, channels, what is copied, and their ports.

In: the settings of the role. Out: one `CopyContext`. Never: a decision.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Protocol

from bus.client.wire.errors import PeerError, PeerErrorKind
from bus.client.wire.ports import ChannelClock
from dr_mirror.copy.cluster_channels import ClusterChannels
from dr_mirror.copy.plan.copied_topics import CopiedTopics
from dr_mirror.copy.plan.pace import LinkLimit, MemoryBudget
from dr_mirror.copy.plan.partition_copy import PartitionCopy
from dr_mirror.policy.topic_names import TopicNames
from dr_mirror.settings import MirrorSettings
from dr_mirror.topics.states import MirrorState
from dr_mirror.topics.topics import ClusterPair


def state_of_lost(error: PeerError, unavailable: MirrorState) -> MirrorState:
    """What a request without an answer says of a partition; `unavailable`: of that side."""
    return MirrorState.LOGIN_REFUSED if error.kind is PeerErrorKind.NOT_LET_IN else unavailable


class PartitionFlow(Protocol):
    """What streams and senders report of a partition: `PartitionTasks`."""

    def on_queued(self, copy: PartitionCopy) -> None:
        """Records of it wait for the target."""

    def on_room(self, copy: PartitionCopy) -> None:
        """The target has taken some of it."""

    def restart(self, copy: PartitionCopy, state: MirrorState, detail: str) -> None:
        """Stop copying it, show this state and detail, begin again after a back-off."""

    def answered_ms(self, copy: PartitionCopy) -> int:
        """When its leader at the source answered last; -1: never."""


class PartitionSender(Protocol):
    """Takes what is queued of a partition to the target."""

    def update(self, copy: PartitionCopy) -> None:
        """Append what it has queued, soon."""

    def remove(self, copy: PartitionCopy) -> None:
        """Another sender has it from now on, or none."""


class CopyTarget(Protocol):
    """A kind of target: `AppendTarget`, or `ProduceTarget`."""

    async def start(self, copy: PartitionCopy) -> None:
        """Begin to copy a partition. Raises NotStarted."""

    def sender(self, copy: PartitionCopy) -> PartitionSender:
        """Whom its records go to now."""


@dataclass(slots=True)
class CopyContext:
    """`clusters` and `flow` are set before anything is copied. `names`: of topics at the target.
    `refresh`: topics and leaders are compared soon. `memory_freed`: who waits for memory."""

    settings: MirrorSettings
    names: TopicNames
    clock: ChannelClock
    source: ClusterChannels
    target: ClusterChannels
    budget: MemoryBudget
    link: LinkLimit
    clusters: ClusterPair
    refresh: asyncio.Event = field(default_factory=asyncio.Event)
    copied: CopiedTopics = field(default_factory=CopiedTopics)
    memory_freed: list[asyncio.Event] = field(default_factory=list)
    flow: PartitionFlow = field(init=False)

    def release(self, size: int) -> None:
        """Memory of a response is free again."""
        self.budget.release(size)
        for waiting in self.memory_freed:
            waiting.set()

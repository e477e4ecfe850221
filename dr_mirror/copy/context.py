"""What the parts of one mirror share: settings, budgets, channels, and how a partition restarts.

In: the settings of the role. Out: one `CopyContext`. Never: a decision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from bus.client.wire.errors import PeerError, PeerErrorKind
from bus.client.wire.ports import ChannelClock
from dr_mirror.copy.cluster_channels import ClusterChannels
from dr_mirror.copy.plan.pace import LinkLimit, MemoryBudget
from dr_mirror.copy.plan.partition_copy import PartitionCopy
from dr_mirror.policy.topic_names import TopicNames
from dr_mirror.settings import MirrorSettings
from dr_mirror.topics.states import MirrorState
from dr_mirror.topics.topics import ClusterPair


def state_of_lost(error: PeerError, unavailable: MirrorState) -> MirrorState:
    """What a request without an answer says of a partition; `unavailable`: of that side."""
    return MirrorState.LOGIN_REFUSED if error.kind is PeerErrorKind.NOT_LET_IN else unavailable


RestartPartition = Callable[[PartitionCopy, MirrorState, str], None]
"""Stop copying a partition, show this state and detail, begin again after a back-off."""


@dataclass(slots=True)
class CopyContext:
    """Set once `clusters` is known. `names`: of topics at the target."""

    settings: MirrorSettings
    names: TopicNames
    clock: ChannelClock
    source: ClusterChannels
    target: ClusterChannels
    budget: MemoryBudget
    link: LinkLimit
    clusters: ClusterPair
    restart: RestartPartition
    refresh_soon: Callable[[], None]
    on_memory_freed: list[Callable[[], None]] = field(default_factory=list)

    def release(self, size: int) -> None:
        """Memory of a response is free again."""
        self.budget.release(size)
        for wake in self.on_memory_freed:
            wake()

"""What the parts of one quorum node share.

The node builds it once its log is open and passes it to its parts, so that none of them imports the
node.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.clock.port import Clock, monotonic_ms
from broker.config.views import BrokerConfig
from broker.controller.kraft.epoch_limit import EpochLimit
from broker.controller.kraft.pending import MetadataState
from broker.controller.kraft.raft.messages import Tick
from broker.controller.kraft.raft.raft import Raft
from broker.controller.kraft.raft.voters import ReplicaKey, VoterEndpoint, VoterSet
from broker.controller.kraft.storage.raft_log import RaftLog
from broker.controller.kraft.transport.connections import QuorumConnections
from broker.disk.port import Disk


def current_tick(clock: Clock) -> Tick:
    """Now, with a random number."""
    return Tick(monotonic_ms(clock), clock.random.random())


@dataclass(slots=True)
class QuorumContext:
    """`endpoint` is this node's controller listener, set once it is bound; nothing else changes."""

    config: BrokerConfig
    clock: Clock
    disk: Disk
    cluster_id: str
    me: ReplicaKey
    log: RaftLog
    raft: Raft
    metadata: MetadataState
    connections: QuorumConnections
    epoch_limit: EpochLimit
    endpoint: VoterEndpoint | None = None

    @property
    def epoch(self) -> int:
        """The quorum's epoch as this node knows it."""
        return self.raft.epoch

    @property
    def leader_id(self) -> int:
        """The leader, -1 if unknown."""
        return self.raft.quorum.announced_leader

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self.log.end.offset

    @property
    def voters(self) -> VoterSet:
        """The voters in force."""
        return self.raft.quorum.voters.latest

    @property
    def is_only_voter(self) -> bool:
        """Whether this node is the only voter."""
        return self.voters.is_only(self.me)

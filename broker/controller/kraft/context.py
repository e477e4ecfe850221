"""What the parts of one quorum node share: what it is made of, and what follows from that.

The node makes it when its log is open and hands it to its parts, so that none of them needs the
node.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.clock.port import Clock, monotonic_ms
from broker.config.views import BrokerConfig
from broker.controller.kraft.epoch_limit import EpochLimit
from broker.controller.kraft.images import Images
from broker.controller.kraft.machine import Machine
from broker.controller.kraft.messages import Moment
from broker.controller.kraft.places import Links
from broker.controller.kraft.raft_log import RaftLog
from broker.controller.kraft.voters import Endpoint, ReplicaKey, VoterSet
from broker.disk.port import Disk


def moment(clock: Clock) -> Moment:
    """Now, with a random number."""
    return Moment(monotonic_ms(clock), clock.random.random())


@dataclass(slots=True)
class QuorumContext:
    """`endpoint` is where this node's controller listener is, once it is bound; all else stays."""

    config: BrokerConfig
    clock: Clock
    disk: Disk
    cluster_id: str
    me: ReplicaKey
    log: RaftLog
    machine: Machine
    images: Images
    links: Links
    epoch_limit: EpochLimit
    endpoint: Endpoint | None = None

    @property
    def epoch(self) -> int:
        """The epoch of the quorum as this node knows it."""
        return self.machine.epoch

    @property
    def leader_id(self) -> int:
        """Who leads, -1 if that is not known."""
        return self.machine.core.announced_leader

    @property
    def end_offset(self) -> int:
        """The offset the next record gets."""
        return self.log.end.offset

    @property
    def voters(self) -> VoterSet:
        """The voters in force."""
        return self.machine.core.voters.latest

    @property
    def is_alone(self) -> bool:
        """Whether this node is the only voter."""
        return self.voters.is_only(self.me)

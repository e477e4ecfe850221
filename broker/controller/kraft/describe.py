"""The quorum as its leader sees it, for operators. Times are converted to the wall clock."""

from __future__ import annotations

from dataclasses import dataclass

from broker.clock.port import monotonic_ms
from broker.controller.kraft.node import RaftNode
from broker.controller.kraft.raft.leader import Progress
from broker.controller.kraft.raft.messages import Tick
from broker.controller.kraft.raft.roles import RaftRole
from broker.controller.kraft.raft.voters import ReplicaKey, VoterSet


@dataclass(frozen=True, slots=True)
class QuorumReplicaInfo:
    """How far one replica has fetched; -1 where unknown."""

    key: ReplicaKey
    end_offset: int = -1
    fetched_ms: int = -1
    caught_up_ms: int = -1


@dataclass(frozen=True, slots=True)
class QuorumInfo:
    """The quorum. On nodes other than the leader `is_leader` is False and only `voter_set` is
    valid."""

    is_leader: bool
    leader_id: int
    epoch: int
    high_watermark: int
    voters: tuple[QuorumReplicaInfo, ...]
    observers: tuple[QuorumReplicaInfo, ...]
    voter_set: VoterSet


def describe(node: RaftNode) -> QuorumInfo:
    """Describes the quorum now."""
    raft = node.raft
    now_ms = node.clock.now_ms()
    mono_ms = monotonic_ms(node.clock)
    current = raft.leader_state.current
    leads = raft.role is RaftRole.LEADER and current is not None

    def wall(at_ms: int) -> int:
        return -1 if at_ms < 0 else now_ms - (mono_ms - at_ms)

    def seen(key: ReplicaKey, found: Progress | None) -> QuorumReplicaInfo:
        if key.matches(node.me):
            return QuorumReplicaInfo(node.me, node.end_offset, now_ms, now_ms)
        if found is None:
            return QuorumReplicaInfo(key)
        return QuorumReplicaInfo(
            key if any(key.directory_id) else found.key,
            found.end_offset,
            wall(found.fetched_at_ms),
            wall(found.caught_up_at_ms),
        )

    progress = current.progress if current is not None else {}
    observers = raft.leader_state.observers(Tick(mono_ms)) if leads else []
    return QuorumInfo(
        leads,
        node.leader_id,
        node.epoch,
        raft.high_watermark,
        tuple(seen(v.key, progress.get(v.key.id)) for v in node.voters.voters),
        tuple(seen(one.key, one) for one in observers),
        node.voters,
    )

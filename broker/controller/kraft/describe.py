"""The quorum as its leader sees it, for operators.

In: the node. Out: frozen values with times of the wall clock. Never: a change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.clock.port import monotonic_ms
from broker.controller.kraft.leading import Progress
from broker.controller.kraft.messages import Moment
from broker.controller.kraft.states import Role
from broker.controller.kraft.voters import ReplicaKey, VoterSet

if TYPE_CHECKING:
    from broker.controller.kraft.node import RaftNode


@dataclass(frozen=True, slots=True)
class ReplicaDescribed:
    """How far one replica has come; -1 where that is not known."""

    key: ReplicaKey
    end_offset: int = -1
    fetched_ms: int = -1
    caught_up_ms: int = -1


@dataclass(frozen=True, slots=True)
class Described:
    """The quorum. `leads` is False on every node but its leader; then only `places` is true."""

    leads: bool
    leader_id: int
    epoch: int
    high_watermark: int
    voters: tuple[ReplicaDescribed, ...]
    observers: tuple[ReplicaDescribed, ...]
    places: VoterSet


def describe(node: RaftNode) -> Described:
    """Look now."""
    machine = node.machine
    now_ms = node.clock.now_ms()
    mono_ms = monotonic_ms(node.clock)
    term = machine.leading.term
    leads = machine.role is Role.LEADER and term is not None

    def wall(at_ms: int) -> int:
        return -1 if at_ms < 0 else now_ms - (mono_ms - at_ms)

    def seen(key: ReplicaKey, found: Progress | None) -> ReplicaDescribed:
        if key.matches(node.me):
            return ReplicaDescribed(node.me, node.end_offset, now_ms, now_ms)
        if found is None:
            return ReplicaDescribed(key)
        return ReplicaDescribed(
            key if any(key.directory_id) else found.key,
            found.end_offset,
            wall(found.fetched_at_ms),
            wall(found.caught_up_at_ms),
        )

    progress = term.progress if term is not None else {}
    observers = machine.leading.observers(Moment(mono_ms)) if leads else []
    return Described(
        leads,
        node.leader_id,
        node.epoch,
        machine.high_watermark,
        tuple(seen(v.key, progress.get(v.key.id)) for v in node.voters.voters),
        tuple(seen(one.key, one) for one in observers),
        node.voters,
    )

"""One change of one partition: its in-sync set, its leader, its eligible leaders.

In: a partition, its target state, who may lead. Out: one PartitionChangeRecord, or None if nothing
differs. Never: which partitions are affected, and why. Kafka: PartitionChangeBuilder.

Rules that always hold:
- a leader comes from the in-sync set; where that is empty, from the eligible leader replicas
  (KIP-966); from elsewhere only by an unclean election, which leaves it alone in sync and marked
  RECOVERING (KIP-704);
- without eligible leader replicas the in-sync set never becomes empty: its last member stays, so
  that only it may lead again; with them it may, because they record which replicas are complete;
- a reassignment is completed by the change that makes its targets in sync.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from broker.metadata.delta_topics import LEADER_NOT_CHANGED, RECOVERY_NOT_CHANGED
from broker.metadata.image import NO_LEADER, LeaderRecoveryState, PartitionImage
from bus.protocol.generated.metadata_records import PartitionChangeRecord

MayLead = Callable[[int], bool]
Replicas = tuple[int, ...]


class Election(Enum):
    """Which replica is preferred as leader."""

    PREFERRED = "preferred"
    """The first of the replicas, if it is in sync; else as ONLINE."""

    ONLINE = "online"
    """The present leader if it may stay, else the first replica in sync."""

    UNCLEAN = "unclean"
    """As ONLINE; if no replica is in sync, any live replica: records may be lost."""


@dataclass(frozen=True, slots=True)
class ElectionContext:
    """The conditions of a partition's change; the same for all partitions of one topic."""

    may_lead: MayLead
    min_isr: int
    elr_enabled: bool = False
    with_directories: bool = True
    default_directory: Callable[[int], bytes] = lambda _: bytes(16)
    use_last_known_leader: bool = True


@dataclass(frozen=True, slots=True)
class TargetState:
    """The target state of a partition; None leaves a field unchanged."""

    isr: Replicas | None = None
    replicas: Replicas | None = None
    adding: Replicas | None = None
    removing: Replicas | None = None
    directories: dict[int, bytes] = field(default_factory=dict)
    recovery: LeaderRecoveryState | None = None
    unclean_shutdown: Replicas = ()
    election: Election = Election.ONLINE


@dataclass(slots=True)
class _NewState:
    """The partition's new state, while it is computed."""

    isr: Replicas
    replicas: Replicas
    adding: Replicas
    removing: Replicas
    elr: Replicas
    last_known_elr: Replicas
    leader: int
    unclean: bool = False


def change_partition(
    topic_id: bytes, old: PartitionImage, target: TargetState, context: ElectionContext
) -> PartitionChangeRecord | None:
    """The record that reaches `target`, with all its consequences."""
    new = _NewState(
        isr=_or_old(target.isr, old.isr),
        replicas=_or_old(target.replicas, old.replicas),
        adding=_or_old(target.adding, old.adding_replicas),
        removing=_or_old(target.removing, old.removing_replicas),
        elr=old.elr,
        last_known_elr=old.last_known_elr,
        leader=old.leader,
    )
    _complete_reassignment(new, context)
    _find_eligible(old, new, target, context)
    _elect(old, new, target.election, context)
    _remember_last_leader(old, new, context)
    return _record(topic_id, old, new, target, context)


def completed_replicas(
    replicas: Sequence[int], removing: Sequence[int]
) -> Replicas:
    """The target of a reassignment."""
    return tuple(one for one in replicas if one not in removing)


def _or_old(value: Replicas | None, old: Replicas) -> Replicas:
    return old if value is None else value


def _complete_reassignment(new: _NewState, context: ElectionContext) -> None:
    """Complete when every added replica of the target is in sync and the target's in-sync set is
    large enough on its own: what was acknowledged by the replicas that go is then held by as many
    that stay (C-RA-10)."""
    if not new.adding and not new.removing:
        return
    target = completed_replicas(new.replicas, new.removing)
    isr = tuple(one for one in new.isr if one in target)
    awaited = [one for one in new.adding if one in target]
    enough = max(1, min(context.min_isr, len(target)))
    if len(isr) < enough or not set(awaited) <= set(isr):
        return
    new.replicas, new.isr, new.adding, new.removing = target, isr, (), ()


def _find_eligible(
    old: PartitionImage, new: _NewState, target: TargetState, context: ElectionContext
) -> None:
    """Replicas that left the in-sync set while it was below its minimum hold everything below
    the high watermark, which cannot rise without them (KIP-966); unless an unclean stop took it."""
    if not context.elr_enabled or _may_advance_watermark(new, context):
        new.elr = ()
        return
    candidates = [*old.elr, *(one for one in old.isr if one not in old.elr)]
    new.elr = tuple(
        sorted(
            one
            for one in candidates
            if one in new.replicas
            and one not in new.isr
            and one not in target.unclean_shutdown
        )
    )


def _may_advance_watermark(new: _NewState, context: ElectionContext) -> bool:
    """Whether the high watermark may advance with these replicas in sync."""
    return len(new.isr) >= min(context.min_isr, len(new.replicas))


def _elect(
    old: PartitionImage, new: _NewState, election: Election, context: ElectionContext
) -> None:
    leader, unclean = _winner(old, new, election, context)
    new.leader = leader
    if leader == NO_LEADER or leader in new.isr:
        return
    new.unclean = unclean
    new.isr = (leader,)
    # Alone it may be as many as the minimum (lowered while there was no leader): then the
    # watermark rises without the others.
    alone = unclean or _may_advance_watermark(new, context)
    new.elr = () if alone else tuple(one for one in new.elr if one != leader)


def _winner(
    old: PartitionImage, new: _NewState, election: Election, context: ElectionContext
) -> tuple[int, bool]:
    """The new leader, and whether it was elected outside the replicas known to be complete."""
    complete = new.isr or new.elr
    if election is Election.PREFERRED and new.replicas:
        order = [new.replicas[0], old.leader, *new.replicas[1:]]
    else:
        order = [old.leader, *new.replicas]
    for candidate in order:
        if candidate in complete and context.may_lead(candidate):
            return candidate, False
    last = _last_known_leader(old, new, context)
    if last is not None:
        return last, True
    if election is Election.UNCLEAN:
        for candidate in new.replicas:
            if context.may_lead(candidate):
                return candidate, True
    return NO_LEADER, False


def _last_known_leader(old: PartitionImage, new: _NewState, context: ElectionContext) -> int | None:
    """No replica is known to be complete: all of them stopped uncleanly. The last leader is then
    nearest to complete (KIP-966, balanced recovery)."""
    if not context.elr_enabled or not context.use_last_known_leader or new.isr or new.elr:
        return None
    if len(old.last_known_elr) != 1:
        return None
    last = old.last_known_elr[0]
    return last if last in new.replicas and context.may_lead(last) else None


def _remember_last_leader(old: PartitionImage, new: _NewState, context: ElectionContext) -> None:
    if not context.elr_enabled or new.leader != NO_LEADER:
        new.last_known_elr = ()
    elif old.leader != NO_LEADER and not new.isr:
        new.last_known_elr = (old.leader,)


def _record(
    topic_id: bytes,
    old: PartitionImage,
    new: _NewState,
    target: TargetState,
    context: ElectionContext,
) -> PartitionChangeRecord | None:
    record = PartitionChangeRecord(topic_id=topic_id, partition_id=old.index)
    removed = [one for one in old.replicas if one not in new.replicas]
    if new.leader != old.leader or removed:
        # A replica that goes must not be fetched from any more, nor acknowledge: new epoch.
        record.leader = new.leader
    if new.isr != old.isr and (new.isr or context.elr_enabled):
        record.isr = list(new.isr)
    if new.elr != old.elr:
        record.eligible_leader_replicas = list(new.elr)
    if new.last_known_elr != old.last_known_elr:
        record.last_known_elr = list(new.last_known_elr)
    if new.replicas != old.replicas:
        record.replicas = list(new.replicas)
    if new.adding != old.adding_replicas:
        record.adding_replicas = list(new.adding)
    if new.removing != old.removing_replicas:
        record.removing_replicas = list(new.removing)
    _set_directories(record, old, new, target, context)
    _set_recovery(record, old, new, target)
    return None if _changes_nothing(record) else record


def _set_directories(
    record: PartitionChangeRecord,
    old: PartitionImage,
    new: _NewState,
    target: TargetState,
    context: ElectionContext,
) -> None:
    if not context.with_directories or (new.replicas == old.replicas and not target.directories):
        return
    directories = [
        target.directories.get(
            one, old.directory_of(one) if one in old.replicas else context.default_directory(one)
        )
        for one in new.replicas
    ]
    if tuple(directories) != old.directories:
        record.directories = directories


def _set_recovery(
    record: PartitionChangeRecord, old: PartitionImage, new: _NewState, target: TargetState
) -> None:
    recovery = old.recovery if target.recovery is None else target.recovery
    if new.unclean:
        recovery = LeaderRecoveryState.RECOVERING
    if recovery is not old.recovery:
        record.leader_recovery_state = int(recovery)


def _changes_nothing(record: PartitionChangeRecord) -> bool:
    return (
        record.leader == LEADER_NOT_CHANGED
        and record.leader_recovery_state == RECOVERY_NOT_CHANGED
        and all(
            held is None
            for held in (
                record.isr,
                record.replicas,
                record.adding_replicas,
                record.removing_replicas,
                record.directories,
                record.eligible_leader_replicas,
                record.last_known_elr,
            )
        )
    )

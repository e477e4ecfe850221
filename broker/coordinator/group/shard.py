"""The groups and offsets in one partition of `__consumer_offsets`.

In: stored records. Out: the state they define, and records to store. Never: I/O. Property:
replaying the partition from its start gives the stored part of the live state.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.coordinator.clock_reading import ClockReading
from broker.coordinator.group.classic_group import ClassicGroup
from broker.coordinator.group.effects import Effect
from broker.coordinator.group.offsets import OffsetTable
from broker.coordinator.group.records import (
    CoordinatorRecord,
    GroupRecord,
    OffsetRecord,
    StoredGroup,
)
from broker.coordinator.group.states import GroupState
from broker.coordinator.group.subscription import subscribed_topics

CONSUMER = "consumer"
"""The protocol type whose members say which topics they read."""


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """What the configuration says about groups (Kafka's own keys)."""

    min_session_timeout_ms: int
    max_session_timeout_ms: int
    initial_rebalance_delay_ms: int
    max_size: int
    offsets_retention_ms: int
    max_metadata_bytes: int


class GroupShard:
    """One loaded partition.

    Invariant: a group is in `groups` if it is stored, has members, or has committed.
    """

    def __init__(self, index: int, limits: GroupLimits) -> None:
        self.index = index
        self.limits = limits
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = OffsetTable()
        self._stored: dict[str, StoredGroup] = {}
        self.loaded = False

    def replay(self, record: CoordinatorRecord) -> None:
        """Apply one stored record."""
        if isinstance(record, OffsetRecord):
            self.offsets.replay(record)
        elif record.value is None:
            self._stored.pop(record.group_id, None)
        else:
            self._stored[record.group_id] = record.value

    def finish_loading(self, now: ClockReading) -> dict[str, list[Effect]]:
        """All records are replayed: stored groups become live. Effects by group (session
        timers)."""
        effects: dict[str, list[Effect]] = {}
        for group_id, stored in self._stored.items():
            group = self.get_or_create(group_id, now)
            effects[group_id] = group.replay(stored, now)
        for group_id in self.offsets.group_ids():
            self.get_or_create(group_id, now)
        self.loaded = True
        return effects

    def summary(self) -> str:
        """What it holds, for the log."""
        return f"{len(self.groups)} groups"

    def get_or_create(self, group_id: str, now: ClockReading) -> ClassicGroup:
        """The group, created empty if there is none."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = ClassicGroup(
                group_id,
                now,
                initial_delay_ms=self.limits.initial_rebalance_delay_ms,
                max_size=self.limits.max_size,
            )
        return group

    def delete_group(self, group_id: str) -> list[CoordinatorRecord]:
        """Records that remove a group and everything it committed."""
        records: list[CoordinatorRecord] = []
        records += self.offsets.tombstones(group_id, self.offsets.of(group_id))
        if group_id in self._stored:
            records.append(GroupRecord(group_id, None))
        return records

    def expire(self, now_ms: int) -> tuple[list[CoordinatorRecord], list[str]]:
        """Expired offsets and groups: records to store, and the groups that these remove."""
        records: list[CoordinatorRecord] = []
        gone: list[str] = []
        for group_id, group in self.groups.items():
            expired = self._expired_offsets(group, now_ms)
            records += expired
            left = len(self.offsets.of(group_id)) - len(expired)
            if group.state is GroupState.EMPTY and not left and self._is_old(group, now_ms):
                gone.append(group_id)
                if group_id in self._stored:
                    records.append(GroupRecord(group_id, None))
        return records, gone

    def _expired_offsets(self, group: ClassicGroup, now_ms: int) -> list[OffsetRecord]:
        emptied = group.state is GroupState.EMPTY and group.protocol_type is not None
        subscribed: frozenset[str] = frozenset()
        if group.state is not GroupState.EMPTY:
            topics = group_subscription(group)
            if topics is None:
                return []
            subscribed = topics
        return self.offsets.expired(
            group.group_id,
            now_ms=now_ms,
            retention_ms=self.limits.offsets_retention_ms,
            empty_since_ms=group.state_timestamp_ms if emptied else None,
            subscribed=subscribed,
        )

    def _is_old(self, group: ClassicGroup, now_ms: int) -> bool:
        """A group just created for its first join or commit must not expire before that is
        stored."""
        if group.group_id not in self._stored:
            return now_ms - group.state_timestamp_ms >= self.limits.max_session_timeout_ms
        return now_ms - group.state_timestamp_ms >= self.limits.offsets_retention_ms


def group_subscription(group: ClassicGroup) -> frozenset[str] | None:
    """Topics the members of a consumer group are subscribed to; None if that is not known."""
    if group.protocol_type != CONSUMER or group.state is not GroupState.STABLE:
        return None
    topics: set[str] = set()
    for member in group.members:
        found = subscribed_topics(member.metadata(group.protocol_name))
        if found is None:
            return None
        topics |= found
    return frozenset(topics)

"""The groups and offsets in one partition of `__consumer_offsets`.

In: stored records. Out: the state they define, and records to store. Never: I/O. Property:
replaying the partition from its start gives the stored part of the live state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

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

MOST_TOMBSTONES = 1000
"""In one batch: a few milliseconds to make, and far below max.message.bytes with usual names."""

MOST_NAMES_BYTES = 256 * 1024
"""Of groups and topics in one batch; a group's name may have 32 KiB."""

TombstoneT = TypeVar("TombstoneT", bound=CoordinatorRecord)

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


class GroupRemoval(NamedTuple):
    """Records that remove parts of a group, at most one batch of them. ``is_whole``: these are all;
    ``is_of_group``: the group is gone with them."""

    records: list[CoordinatorRecord]
    is_whole: bool
    is_of_group: bool


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

    def finish_loading(self, now: ClockReading) -> Iterator[tuple[ClassicGroup, list[Effect]]]:
        """All records are replayed: stored groups become live, one by one, with their effects
        (session timers). `loaded` is set behind the last."""
        for group_id, stored in list(self._stored.items()):
            group = self.get_or_create(group_id, now)
            yield group, group.replay(stored, now)
        for group_id in self.offsets.group_ids():
            yield self.get_or_create(group_id, now), []
        self.loaded = True

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
        """Records that remove a group and what it has committed, as many as fit into a batch. The
        group's own comes last, always: its metadata may be on their way into the log."""
        places = self.offsets.of(group_id)
        records: list[CoordinatorRecord] = first_of_batch(
            self.offsets.tombstones(group_id, places)
        )
        if len(records) == len(places):
            records.append(GroupRecord(group_id, None))
        return records

    def forget_topics(self, topics: frozenset[str]) -> list[OffsetRecord]:
        """Records that remove what was committed for deleted topics, as many as fit into one."""
        return first_of_batch(self.offsets.of_topics(topics))

    def expire(self, group: ClassicGroup, now_ms: int) -> GroupRemoval:
        """What is too old of a group. An empty group goes with its last offset, as in Kafka."""
        group_id = group.group_id
        expired = self._expired_offsets(group, now_ms)
        records: list[CoordinatorRecord] = first_of_batch(expired)
        is_whole = len(records) == len(expired)
        is_of_group = (
            is_whole
            and group.state is GroupState.EMPTY
            and len(expired) == len(self.offsets.of(group_id))
            and not self.offsets.is_committing(group_id)
            and self._is_old(group, now_ms)
        )
        if is_of_group and group_id in self._stored:
            records.append(GroupRecord(group_id, None))
        return GroupRemoval(records, is_whole, is_of_group)

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
        if group.group_id in self._stored:
            return True
        return now_ms - group.state_timestamp_ms >= self.limits.max_session_timeout_ms


def names_bytes_of(records: Sequence[CoordinatorRecord]) -> int:
    """At most how many bytes the names of groups take in these."""
    return sum([3 * len(record.group_id) for record in records])


def first_of_batch(records: Iterable[TombstoneT]) -> list[TombstoneT]:
    """The first of these that fit into one batch, at least one."""
    taken: list[TombstoneT] = []
    left_bytes = MOST_NAMES_BYTES
    for record in records:
        left_bytes -= names_bytes_of([record])
        if taken and (left_bytes < 0 or len(taken) >= MOST_TOMBSTONES):
            break
        taken.append(record)
    return taken


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

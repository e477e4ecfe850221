"""Committed offsets of groups, and their expiry.

In: commits, fetches, the time. Out: `OffsetRecord`s to store; only `replay` changes the table.
Never: I/O, group membership. Expiry follows KIP-211: offsets live as long as their group does
and then `offsets.retention.minutes` more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from broker.coordinator.group.records import CommittedOffset, OffsetRecord

PartitionKey = tuple[str, int]

_NONE: Mapping[PartitionKey, CommittedOffset] = {}


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """Offsets that one member, or a client outside the group, commits."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    generation: int
    offsets: Sequence[tuple[str, int, CommittedOffset]]
    knows_missing_groups: bool = False


class OffsetTable:
    """Offsets by group and place (topic, partition), and which places are being committed: their
    records are on the way into the log, where a tombstone would come behind them."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[PartitionKey, CommittedOffset]] = {}
        self._committing: dict[str, Counter[PartitionKey]] = {}

    def begin_commit(self, group_id: str, places: Iterable[PartitionKey]) -> None:
        """A commit of these places is about to be written."""
        self._committing.setdefault(group_id, Counter()).update(places)

    def end_commit(self, group_id: str, places: Iterable[PartitionKey]) -> None:
        """It is written, or its client has got an error."""
        left = self._committing[group_id]
        left.subtract(places)
        if not any(left.values()):
            del self._committing[group_id]

    def is_committing(self, group_id: str) -> bool:
        """Whether a commit of the group is on its way."""
        return group_id in self._committing

    def replay(self, record: OffsetRecord) -> None:
        """Apply one stored record."""
        place = (record.topic, record.partition)
        if record.value is not None:
            self._groups.setdefault(record.group_id, {})[place] = record.value
            return
        offsets = self._groups.get(record.group_id)
        if offsets is not None:
            offsets.pop(place, None)
            if not offsets:
                del self._groups[record.group_id]

    def of(self, group_id: str) -> Mapping[PartitionKey, CommittedOffset]:
        """All offsets of one group."""
        return self._groups.get(group_id, _NONE)

    def group_ids(self) -> list[str]:
        """Groups that have committed."""
        return list(self._groups)

    def tombstones(
        self, group_id: str, places: Iterable[PartitionKey]
    ) -> Iterator[OffsetRecord]:
        """Records that remove the committed offsets of these partitions."""
        held = self.of(group_id)
        return (
            OffsetRecord(group_id, topic, partition, None)
            for topic, partition in places
            if (topic, partition) in held
        )

    def of_topics(self, topics: frozenset[str]) -> Iterator[OffsetRecord]:
        """Records that remove what any group committed for deleted topics."""
        return (
            OffsetRecord(group_id, topic, partition, None)
            for group_id, held in self._groups.items()
            for topic, partition in held
            if topic in topics
        )

    def expired(
        self,
        group_id: str,
        *,
        now_ms: int,
        retention_ms: int,
        empty_since_ms: int | None,
        subscribed: frozenset[str] = frozenset(),
    ) -> list[OffsetRecord]:
        """Records that remove offsets not used for the retention time.

        `empty_since_ms` is when the last member left, None for a group without members ever or
        with members now; then each offset's own commit counts. Subscribed topics are kept, and
        what is being committed.
        """
        committing: Mapping[PartitionKey, int] = self._committing.get(group_id, {})
        return [
            OffsetRecord(group_id, topic, partition, None)
            for (topic, partition), held in self.of(group_id).items()
            if topic not in subscribed
            and not committing.get((topic, partition))
            and _is_expired(held, now_ms, retention_ms, empty_since_ms)
        ]


def _is_expired(
    held: CommittedOffset, now_ms: int, retention_ms: int, empty_since_ms: int | None
) -> bool:
    if held.expire_timestamp_ms != -1:
        return now_ms >= held.expire_timestamp_ms
    since = held.commit_timestamp_ms
    if empty_since_ms is not None:
        since = max(since, empty_since_ms)
    return now_ms - since >= retention_ms

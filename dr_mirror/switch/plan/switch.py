"""What a switch of the primary site does next, by what both sites answer. Pure.

In: the mirror's status, topics, ends, site epochs. Out: obstacles, topics to fence and to open,
what is still to be drained. Never: a topic opened at one site before it is fenced at the other and
drained, unless the switch is forced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bus.client.model import TopicPartition
from bus.contracts.mirror import SOURCE_CLUSTER_KEY
from bus.contracts.mirror_status import MirrorStatus
from dr_mirror.topics.states import MirrorState, state_named
from dr_mirror.topics.topics import MirrorTopic

WITHOUT_RECORDS_HERE = (MirrorState.LOOP, MirrorState.DELETED_AT_SOURCE)
"""Topics in these states are no part of a switch: nothing of the primary is missing in them."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a planned switch may not begin. `partition` -1: the whole topic; no topic: all of it."""

    text: str
    topic: str = ""
    partition: int = -1


@dataclass(frozen=True, slots=True)
class TopicHandover:
    """One topic that changes hands. `fence`: the former primary still takes records. `open`: the
    new one does not yet."""

    topic: str
    partitions: int
    fence: bool
    open: bool


@dataclass(frozen=True, slots=True)
class PartitionEnd:
    """Where a fenced partition ends at its leader of this epoch."""

    leader_epoch: int
    end: int


@dataclass(frozen=True, slots=True)
class Undrained:
    """A partition that the new primary does not hold in full. `missing` -1: an end is unknown."""

    partition: TopicPartition
    missing: int


def status_obstacles(
    status: MirrorStatus, *, copied_from: str, age_ms: int, max_age_ms: int, max_lag_s: float
) -> list[Obstacle]:
    """What the mirror's own words have against a planned switch."""
    if age_ms > max_age_ms:
        return [
            Obstacle(f"the mirror's status is {age_ms // 1000} s old: start the mirror, or see why "
                     "it stands still: databus logs mirror")
        ]  # fmt: skip
    if status.source_cluster_id != copied_from:
        return [Obstacle(f"the mirror copies from {status.source_cluster_id}, not {copied_from}")]
    found = [Obstacle(status.unreachable)] if status.unreachable else []
    for topic in status.topics:
        state = state_named(topic.state)
        if not state.copies and state not in WITHOUT_RECORDS_HERE:
            found.append(Obstacle(_words(state, topic.detail), topic.topic))
    for one in status.partitions:
        state = state_named(one.state)
        if not state.copies:
            found.append(Obstacle(_words(state, one.detail), one.topic, one.partition))
        elif not 0 <= one.lag_s <= max_lag_s:
            lag = "an unknown time" if one.lag_s < 0 else f"{one.lag_s:.0f} s"
            text = f"it is {lag} behind, more than {max_lag_s:g} s"
            found.append(Obstacle(text, one.topic, one.partition))
    return found


def _words(state: MirrorState, detail: str) -> str:
    return f"{state.value}: {detail}" if detail else state.value


def topic_handovers(
    former: Mapping[str, MirrorTopic],
    new: Mapping[str, MirrorTopic],
    *,
    former_id: str,
    new_id: str,
) -> list[TopicHandover]:
    """The topics that change hands, by name: those that the new primary mirrors from the former
    one, and those of an earlier try, which the former one already mirrors from the new one."""
    found = []
    for name, topic in sorted(former.items()):
        there = new.get(name)
        is_fenced = topic.configs.get(SOURCE_CLUSTER_KEY) == new_id
        is_mirror = there is not None and there.configs.get(SOURCE_CLUSTER_KEY) == former_id
        if there is not None and (is_mirror or is_fenced):
            found.append(TopicHandover(name, topic.partitions, not is_fenced, is_mirror))
    return found


def handover_obstacles(
    former: Mapping[str, MirrorTopic], new: Mapping[str, MirrorTopic], topics: list[TopicHandover]
) -> list[Obstacle]:
    """Topics that cannot be handed over as they are."""
    if not topics:
        return [Obstacle("no topic of the primary is mirrored: there is nothing to hand over")]
    return [
        Obstacle(f"{new[each.topic].partitions} partitions where the primary has "
                 f"{former[each.topic].partitions}", each.topic)
        for each in topics
        if new[each.topic].partitions < former[each.topic].partitions
    ]  # fmt: skip


def undrained(
    fenced: Mapping[TopicPartition, PartitionEnd],
    held: Mapping[TopicPartition, int],
    partitions: Iterable[TopicPartition],
) -> list[Undrained]:
    """Partitions whose end at the new primary is not the end at the fenced former one."""
    found = []
    for partition in partitions:
        end, at_new = fenced.get(partition), held.get(partition)
        if end is None or at_new is None:
            found.append(Undrained(partition, -1))
        elif end.end != at_new:
            found.append(Undrained(partition, end.end - at_new))
    return found


def is_still_fenced(
    before: Mapping[TopicPartition, PartitionEnd], after: Mapping[TopicPartition, PartitionEnd]
) -> bool:
    """Whether no leader changed and no end moved while the rest was drained."""
    return dict(before) == dict(after)

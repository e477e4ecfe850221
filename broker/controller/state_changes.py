"""The state-change log of partitions, and the count of unclean elections.

A line per changed partition with its former and its new state (C-OBS-01); a count (C-OBS-02).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from broker.metadata.delta import Changes
from broker.metadata.image import NO_LEADER, LeaderRecoveryState, PartitionImage, TopicImage

log = logging.getLogger("broker.controller.state_change")

MAX_LINES = 1000
"""Per change: a topic of ten thousand partitions must not delay the quorum."""

NON_EXISTENT, OFFLINE, ONLINE = "NON_EXISTENT", "OFFLINE", "ONLINE"


def state_of(partition: PartitionImage | None) -> str:
    """Kafka's name of the state."""
    if partition is None:
        return NON_EXISTENT
    return OFFLINE if partition.leader == NO_LEADER else ONLINE


def unclean_elections(changes: Changes) -> Iterator[tuple[TopicImage, PartitionImage]]:
    """Partitions whose new leader was not in sync: it may lack acknowledged records."""
    for topic, partition in changes.changed_partitions:
        before = changes.previous.partition(topic.topic_id, partition.index)
        was_recovering = before is not None and before.recovery is LeaderRecoveryState.RECOVERING
        if partition.recovery is LeaderRecoveryState.RECOVERING and not was_recovering:
            yield topic, partition


def log_unclean_elections(changes: Changes) -> int:
    """Logs a line for each; returns their number."""
    count = 0
    for topic, partition in unclean_elections(changes):
        count += 1
        log.warning(
            "unclean election: broker %d leads %s-%d from epoch %d on and was not in sync; "
            "acknowledged records may be lost", partition.leader, topic.name, partition.index,
            partition.leader_epoch,
        )  # fmt: skip
    return count


def log_state_changes(changes: Changes, controller_id: int, controller_epoch: int) -> None:
    """Logs a line for each partition that was created, deleted, or changed its leader, replicas or
    in-sync set; all of them in one log record, which costs the controller one write."""
    if not log.isEnabledFor(logging.INFO):
        return
    where = f"controller {controller_id} epoch {controller_epoch}"
    lines = [
        f"{where}: {topic.name}-{partition.index} "
        f"{state_of(changes.previous.partition(topic.topic_id, partition.index))} → "
        f"{state_of(partition)} leader {partition.leader} epoch {partition.leader_epoch} "
        f"isr {list(partition.isr)} replicas {list(partition.replicas)}"
        for topic, partition in changes.changed_partitions[:MAX_LINES]
    ]
    more = len(changes.changed_partitions) - MAX_LINES
    if more > 0:
        lines.append(f"{where}: and {more} partitions more in the same change")
    for topic in changes.deleted_topics:
        for partition in topic.partitions:
            lines.append(
                f"{where}: {topic.name}-{partition.index} {state_of(partition)} → {NON_EXISTENT}"
            )
    if lines:
        log.info("%s", "\n".join(lines))

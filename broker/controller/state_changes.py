"""What became of partitions, for the state-change log and the count of unclean elections.

In: changes of the image, as the active controller decided them. Out: a line per partition with its
former and its new state (C-OBS-01); a count (C-OBS-02). Never: a decision.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from broker.metadata.delta import Changes
from broker.metadata.image import NO_LEADER, PartitionImage, Recovery, TopicImage

log = logging.getLogger("broker.controller.state_change")

MAX_LINES = 1000
"""Of one change: a topic of ten thousand partitions is not to keep the quorum waiting for them."""

NON_EXISTENT, OFFLINE, ONLINE = "NON_EXISTENT", "OFFLINE", "ONLINE"


def state_of(partition: PartitionImage | None) -> str:
    """Kafka's word for it."""
    if partition is None:
        return NON_EXISTENT
    return OFFLINE if partition.leader == NO_LEADER else ONLINE


def unclean_elections(changes: Changes) -> Iterator[tuple[TopicImage, PartitionImage]]:
    """Partitions whose new leader was not in sync: it may lack records that were acknowledged."""
    for topic, partition in changes.changed_partitions:
        before = changes.previous.partition(topic.topic_id, partition.index)
        was_recovering = before is not None and before.recovery is Recovery.RECOVERING
        if partition.recovery is Recovery.RECOVERING and not was_recovering:
            yield topic, partition


def tell_unclean(changes: Changes) -> int:
    """A line for each; how many there were."""
    count = 0
    for topic, partition in unclean_elections(changes):
        count += 1
        log.warning(
            "unclean election: broker %d leads %s-%d from epoch %d on and was not in sync; "
            "acknowledged records may be lost", partition.leader, topic.name, partition.index,
            partition.leader_epoch,
        )  # fmt: skip
    return count


def tell(changes: Changes, controller_id: int, controller_epoch: int) -> None:
    """A line for each partition that has come, gone, or changed its leader, replicas or in-sync
    set."""
    if not log.isEnabledFor(logging.INFO):
        return
    where = f"controller {controller_id} epoch {controller_epoch}"
    for topic, partition in changes.changed_partitions[:MAX_LINES]:
        before = changes.previous.partition(topic.topic_id, partition.index)
        log.info(
            "%s: %s-%d %s → %s leader %d epoch %d isr %s replicas %s", where, topic.name,
            partition.index, state_of(before), state_of(partition), partition.leader,
            partition.leader_epoch, list(partition.isr), list(partition.replicas),
        )  # fmt: skip
    more = len(changes.changed_partitions) - MAX_LINES
    if more > 0:
        log.info("%s: and %d partitions more in the same change", where, more)
    for topic in changes.deleted_topics:
        for partition in topic.partitions:
            log.info("%s: %s-%d %s → %s", where, topic.name, partition.index,
                     state_of(partition), NON_EXISTENT)  # fmt: skip

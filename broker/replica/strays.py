"""Logs that the metadata do not have on this broker when it starts.

In: the image, the logs. Out: logs removed that other brokers hold whole; all others put aside and
kept, for it may be the metadata that are lost (ADR 0042). Never: a log deleted on a doubt.
"""

from __future__ import annotations

import logging

from broker.log.errors import LogError
from broker.log.log import Log
from broker.log.manager import LogManager
from broker.metadata.image import MetadataImage, PartitionImage

log = logging.getLogger("broker.replica")


def settle_strays(logs: LogManager, image: MetadataImage, broker_id: int) -> None:
    """Remove them or put them aside."""

    def known(topic: str, index: int, topic_id: bytes | None) -> bool:
        if not _is_replica(image, broker_id, topic, index):
            return False
        return topic_id in (None, image.topics[topic].topic_id)

    strays = logs.unknown(known)
    for stray in strays:
        try:
            _settle(logs, stray, image, broker_id)
        except LogError as error:
            log.error("%s stays as it is until the next start: %s", stray.directory, error)
    if strays:
        logs.volumes.look()
    logs.unusable.forget_others(lambda topic, index: _is_replica(image, broker_id, topic, index))


def _settle(logs: LogManager, stray: Log, image: MetadataImage, broker_id: int) -> None:
    key = (stray.topic, stray.index)
    if logs.futures.get(key) is stray:
        logs.futures.drop(key)  # a copy; what it was made from decides
    elif _is_whole_elsewhere(image, broker_id, stray):
        log.warning("%s has moved to other brokers and is removed", stray.directory)
        logs.delete(*key)
    else:
        kept = logs.keep_stray(stray)
        log.error(
            "the metadata do not know %s; nothing of it is deleted, it is kept as %s "
            "(see `databus broker strays`)", stray.directory, kept,
        )  # fmt: skip


def _assigned(image: MetadataImage, topic: str, index: int) -> PartitionImage | None:
    found = image.topics.get(topic)
    return found.partitions[index] if found and index < len(found.partitions) else None


def _is_replica(image: MetadataImage, broker_id: int, topic: str, index: int) -> bool:
    """Whether the metadata have a replica of the partition on the broker."""
    partition = _assigned(image, topic, index)
    return partition is not None and broker_id in partition.replicas


def _is_whole_elsewhere(image: MetadataImage, broker_id: int, stray: Log) -> bool:
    """Whether other brokers hold the same partition, led and all in sync."""
    partition = _assigned(image, stray.topic, stray.index)
    return (
        partition is not None
        and image.topics[stray.topic].topic_id == stray.topic_id
        and broker_id not in partition.replicas
        and partition.leader >= 0
        and set(partition.isr) == set(partition.replicas)
    )

"""Handles logs that the metadata do not have on this broker when it starts.

Removes logs that other brokers hold whole. All others are renamed and kept, because the metadata
may be what is lost (ADR 0042): nothing is deleted in case of doubt.
"""

from __future__ import annotations

import logging

from broker.log.errors import LogError
from broker.log.log import Log
from broker.log.manager import LogManager
from broker.metadata.image import MetadataImage, PartitionImage

log = logging.getLogger("broker.replica")


def handle_strays(logs: LogManager, image: MetadataImage, broker_id: int) -> None:
    """Remove them or rename and keep them."""

    def known(topic: str, index: int, topic_id: bytes | None) -> bool:
        if not _is_replica(image, broker_id, topic, index):
            return False
        return topic_id in (None, image.topics[topic].topic_id)

    strays = logs.unknown_logs(known)
    for stray in strays:
        try:
            _handle(logs, stray, image, broker_id)
        except LogError as error:
            log.error("%s stays as it is until the next start: %s", stray.directory, error)
    if strays:
        logs.volumes.refresh_now()
    logs.unusable.forget_others(lambda topic, index: _is_replica(image, broker_id, topic, index))


def _handle(logs: LogManager, stray: Log, image: MetadataImage, broker_id: int) -> None:
    key = (stray.topic, stray.index)
    if logs.future_logs.get(key) is stray:
        logs.future_logs.drop(key)  # a copy; the log it was copied from decides
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

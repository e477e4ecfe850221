"""The content of each copy of a partition, read from the files of stopped brokers.

In: a cluster's folders. Out: `ReplicaStateEvent` events. Never: a running broker's files.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from pathlib import Path

from deploy.servers.databus_cluster import RunningCluster
from tests.checker.history import ReplicaStateEvent

# base offset, length of the rest, leader epoch, magic, CRC, attributes, last offset delta
HEADER = struct.Struct(">qiibIhi")
LENGTH_ENDS = 12  # the length counts the bytes after it


def replica_states(
    cluster: RunningCluster, topic: str, partition: int, high_watermark: int, at_ms: int
) -> list[ReplicaStateEvent]:
    """One event for each broker that holds the partition."""
    found = []
    for broker in cluster.brokers:
        for folder in sorted(broker.data_dir.glob(f"**/{topic}-{partition}")):
            held = list(batches(folder))
            found.append(
                ReplicaStateEvent(
                    at_ms=at_ms, broker=broker.node_id, topic=topic, partition=partition,
                    log_start=held[0][0] if held else 0, high_watermark=high_watermark,
                    batches=held,
                )
            )  # fmt: skip
    assert len(found) == len(cluster.brokers), f"{len(found)} copies of {topic}-{partition}"
    return found


def batches(folder: Path) -> Iterator[tuple[int, int, int, str]]:
    """(base, last, leader epoch, digest of all bytes after the epoch) of each whole batch."""
    for segment in sorted(folder.glob("*.log")):
        data, at = segment.read_bytes(), 0
        while at + HEADER.size <= len(data):
            base, length, epoch, _, _, _, delta = HEADER.unpack_from(data, at)
            end = at + LENGTH_ENDS + length
            if length <= 0 or end > len(data):
                break
            yield base, base + delta, epoch, hashlib.sha256(data[at:end]).hexdigest()[:16]
            at = end

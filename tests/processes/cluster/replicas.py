"""What each copy of a partition holds, read from the files of brokers that have stopped.

In: a cluster's folders. Out: `ReplicaState` events. Never: a running broker's files.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from pathlib import Path

from broker.server.embedded_cluster import RunningCluster
from tests.checker.history import ReplicaState

# base offset, length of the rest, leader epoch, magic, CRC, attributes, last offset delta
HEADER = struct.Struct(">qiibIhi")
LENGTH_ENDS = 12  # the length counts what stands behind it


def replica_states(
    cluster: RunningCluster, topic: str, partition: int, high_watermark: int, at_ms: int
) -> list[ReplicaState]:
    """One event for each broker that holds the partition."""
    found = []
    for broker in cluster.brokers:
        for folder in sorted(broker.data_dir.glob(f"**/{topic}-{partition}")):
            held = list(batches(folder))
            found.append(
                ReplicaState(
                    at_ms=at_ms, broker=broker.node_id, topic=topic, partition=partition,
                    log_start=held[0][0] if held else 0, high_watermark=high_watermark,
                    batches=held,
                )
            )  # fmt: skip
    assert len(found) == len(cluster.brokers), f"{len(found)} copies of {topic}-{partition}"
    return found


def batches(folder: Path) -> Iterator[tuple[int, int, int, str]]:
    """(base, last, leader epoch, digest of all bytes behind the epoch) of each whole batch."""
    for segment in sorted(folder.glob("*.log")):
        data, at = segment.read_bytes(), 0
        while at + HEADER.size <= len(data):
            base, length, epoch, _, _, _, delta = HEADER.unpack_from(data, at)
            end = at + LENGTH_ENDS + length
            if length <= 0 or end > len(data):
                break
            yield base, base + delta, epoch, hashlib.sha256(data[at:end]).hexdigest()[:16]
            at = end

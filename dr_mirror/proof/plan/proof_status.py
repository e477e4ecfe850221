"""What is proven, as `mirror status`, metrics and the console show it. Pure.

In: the proofs of partitions, the time. Out: `ProofStatus`, also as it stands in a file. Never: a
topic called complete of which a replica was not compared, or differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from bus.contracts.mirror_status import ProofStatus, ReplicaDifference, TopicProof
from dr_mirror.proof.plan.partition_proof import BLOCK_OFFSETS, PartitionProof

MAX_LISTED = 200
"""Differences in one status: a whole lost disk has thousands, and one cause."""


def proof_status(
    topics: Iterable[TopicProofTotals],
    *,
    now_ms: int,
    compared_blocks: int,
    read_bytes: int,
    bytes_per_s: float,
    not_compared: Mapping[str, str],
    unavailable: str,
) -> ProofStatus:
    """In all; topics by name, their partitions added up."""
    by_name = sorted(topics, key=lambda one: one.topic)
    differences = [found for one in by_name for found in sorted(one.differences, key=_place)]
    return ProofStatus(
        topics=tuple(one.proof(now_ms) for one in by_name),
        differences=tuple(differences[:MAX_LISTED]),
        compared_blocks=compared_blocks,
        read_bytes=read_bytes,
        bytes_per_s=bytes_per_s,
        not_compared=dict(not_compared),
        unavailable=unavailable,
    )


class TopicProofTotals:
    """Sums over the partitions of one topic, added one by one: there may be thousands."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.differences: list[ReplicaDifference] = []
        self._complete_to_ms: int | None = None
        self._oldest_ms: int | None = None
        self._held = self._unproven = 0
        self._failures: set[str] = set()

    def add(self, one: PartitionProof) -> None:
        """One partition."""
        self._held += _blocks(one.end - one.start)
        self._unproven += _blocks(one.unproven_offsets)
        complete_to_ms = one.complete_to_ms
        if self._complete_to_ms is None or complete_to_ms < self._complete_to_ms:
            self._complete_to_ms = complete_to_ms
        oldest_ms = one.oldest_proof_ms() if one.end > one.start else -1
        if oldest_ms >= 0 and (self._oldest_ms is None or oldest_ms < self._oldest_ms):
            self._oldest_ms = oldest_ms
        self.differences += [
            ReplicaDifference(
                topic=one.topic, partition=one.partition, **msgspec.structs.asdict(found)
            )
            for found in one.differences
        ]
        if one.source_failure:
            self._failures.add(f"the source: {one.source_failure}")
        for replica in one.replicas:
            if replica.failure:
                self._failures.add(f"broker {replica.broker}: {replica.failure}")

    def proof(self, now_ms: int) -> TopicProof:
        """Of all that were added."""
        oldest_ms = self._oldest_ms
        return TopicProof(
            topic=self.topic,
            complete_to_ms=-1 if self._complete_to_ms is None else self._complete_to_ms,
            blocks=max(self._held - self._unproven, 0),
            unproven_blocks=self._unproven,
            oldest_s=-1.0 if oldest_ms is None else max(now_ms - oldest_ms, 0) / 1000,
            differences=len(self.differences),
            failures=tuple(sorted(self._failures)),
        )


def _place(one: ReplicaDifference) -> int:
    return one.partition


def _blocks(offsets: int) -> int:
    return -(-offsets // BLOCK_OFFSETS)

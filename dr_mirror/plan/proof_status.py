"""What is proven, as `mirror status`, metrics and the console show it. Pure.

In: the proofs of partitions, the time. Out: `ProofStatus`, also as it stands in a file. Never: a
topic called complete of which a replica was not compared, or differs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from dr_mirror.plan.partition_proof import BLOCK_OFFSETS, DifferingRange, PartitionProof

MAX_SHOWN = 200
"""Differences in one status: a whole lost disk has thousands, and one cause."""


class ReplicaDifference(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets [first_offset, end_offset) at which a replica at the target does not hold what the
    source has. `directory`: its log directory; empty where it could not be asked."""

    topic: str
    partition: int
    broker: int
    directory: str
    first_offset: int
    end_offset: int
    found_ms: int
    detail: str


class TopicProof(msgspec.Struct, frozen=True, kw_only=True):
    """One topic. `complete_to_ms`: every replica holds, proven, all that the source had at this
    time; -1: not known. `blocks` are proven on every replica, `unproven_blocks` are not, by
    offsets. `oldest_s`: since when the block that waits longest has not been read; -1: nothing to
    prove."""

    topic: str
    complete_to_ms: int
    blocks: int
    unproven_blocks: int
    oldest_s: float
    differences: int
    failures: tuple[str, ...] = ()


class ProofStatus(msgspec.Struct, frozen=True, kw_only=True):
    """All topics. `compared_blocks` and `read_bytes` count since the process began, every replica
    and every time; `not_compared`: topics that are copied and not compared, and why."""

    topics: tuple[TopicProof, ...] = ()
    differences: tuple[ReplicaDifference, ...] = ()
    compared_blocks: int = 0
    read_bytes: int = 0
    bytes_per_s: float = 0.0
    not_compared: dict[str, str] = {}
    unavailable: str = ""
    """Why records of reconciliation cannot be kept; empty: they are."""


def proof_status(
    proofs: Iterable[PartitionProof],
    *,
    now_ms: int,
    compared_blocks: int,
    read_bytes: int,
    bytes_per_s: float,
    not_compared: Mapping[str, str],
    unavailable: str,
) -> ProofStatus:
    """In all; topics by name."""
    by_topic: dict[str, list[PartitionProof]] = defaultdict(list)
    for one in proofs:
        by_topic[one.topic].append(one)
    differences = [_difference(one, found) for one in _ordered(by_topic)
                   for found in one.differences]  # fmt: skip
    return ProofStatus(
        topics=tuple(_topic(name, by_topic[name], now_ms) for name in sorted(by_topic)),
        differences=tuple(differences[:MAX_SHOWN]),
        compared_blocks=compared_blocks,
        read_bytes=read_bytes,
        bytes_per_s=bytes_per_s,
        not_compared=dict(not_compared),
        unavailable=unavailable,
    )


def _ordered(by_topic: Mapping[str, list[PartitionProof]]) -> Iterable[PartitionProof]:
    for name in sorted(by_topic):
        yield from sorted(by_topic[name], key=lambda one: one.partition)


def _topic(name: str, partitions: list[PartitionProof], now_ms: int) -> TopicProof:
    unproven = sum(_blocks(one.unproven_offsets) for one in partitions)
    held = sum(_blocks(one.end - one.start) for one in partitions)
    oldest = [at for at in (one.oldest_proof_ms() for one in partitions if one.end > one.start)
              if at >= 0]  # fmt: skip
    return TopicProof(
        topic=name,
        complete_to_ms=min((one.complete_to_ms for one in partitions), default=-1),
        blocks=max(held - unproven, 0),
        unproven_blocks=unproven,
        oldest_s=max(now_ms - min(oldest), 0) / 1000 if oldest else -1.0,
        differences=sum(len(one.differences) for one in partitions),
        failures=tuple(sorted(set(_failures(partitions)))),
    )


def _failures(partitions: Iterable[PartitionProof]) -> Iterable[str]:
    for one in partitions:
        if one.source_failure:
            yield f"the source: {one.source_failure}"
        for replica in one.replicas:
            if replica.failure:
                yield f"broker {replica.broker}: {replica.failure}"


def _difference(one: PartitionProof, found: DifferingRange) -> ReplicaDifference:
    return ReplicaDifference(
        topic=one.topic, partition=one.partition, **msgspec.structs.asdict(found)
    )


def _blocks(offsets: int) -> int:
    return -(-offsets // BLOCK_OFFSETS)

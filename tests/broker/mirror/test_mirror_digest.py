"""MirrorDigest: what a mirror compares of the two sites' copies."""

from __future__ import annotations

import hashlib
import random
import uuid
from pathlib import Path

import pytest

from bus.client.wire.sync_client import SyncClient
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.mirror_digest import (
    MirrorDigestRequest,
    PartitionMirrorDigest,
    PartitionMirrorDigestResult,
    TopicMirrorDigest,
)
from bus.records.batch import iter_batches
from deploy.servers.databus_cluster import RunningCluster
from tests.broker.mirror.client import create_mirrored, mirror
from tests.broker.mirror.test_mirror_append import NODE, at

BLOCK = 50


@pytest.fixture
def topic(link: SyncClient) -> str:
    """A mirrored topic that has been claimed; small segments, few index entries."""
    name = f"digested-{uuid.uuid4().hex[:8]}"
    create_mirrored(link, name, internal_segment_bytes="3000", index_interval_bytes="500")
    mirror(link, name)
    return name


def digest(
    link: SyncClient, topic: str, begin: int, end: int, *, block: int = BLOCK
) -> PartitionMirrorDigestResult:
    asked = PartitionMirrorDigest(0, begin, end, block)
    answer = link.request_node(
        NODE, ApiKey.MIRROR_DIGEST, MirrorDigestRequest([TopicMirrorDigest(topic, [asked])])
    )
    result: PartitionMirrorDigestResult = answer.topics[0].partitions[0]
    return result


def expected(data: bytes, begin: int, end: int, block: int = BLOCK) -> list[tuple[object, ...]]:
    """The blocks as anybody can compute them from what a fetch of the source returns."""
    blocks: dict[int, list[tuple[int, int, int, bytes]]] = {}
    for position, header in iter_batches(data):
        if begin <= header.base_offset < end:
            one = data[position : position + header.size_bytes]
            plain = one[:12] + bytes(4) + one[16:]
            blocks.setdefault(header.base_offset // block, []).append(
                (header.base_offset, header.end_offset, header.records_count, plain)
            )
    return [
        (
            held[0][0], held[-1][1], len(held), sum(one[2] for one in held),
            sum(len(one[3]) for one in held),
            hashlib.sha256(b"".join(one[3] for one in held)).digest(),
        )
        for _, held in sorted(blocks.items())
    ]  # fmt: skip


def blocks_of(result: PartitionMirrorDigestResult) -> list[tuple[object, ...]]:
    return [
        (one.first_offset, one.end_offset, one.batches, one.records, one.size_bytes, bytes(one.digest))
        for one in result.blocks
    ]


def fill(link: SyncClient, topic: str, dice: random.Random) -> bytes:
    sent, offset = b"", 3
    while len(sent) < 40_000:
        count = dice.randrange(1, 9)
        data = at(offset, count)
        base = mirror(link, topic).log_end_offset
        assert mirror(link, topic, data, base_offset=base).error_code == 0
        sent += data
        offset += count + dice.choice([0, 0, 0, 1, 30, 200])
    return sent


def test_blocks_are_those_of_the_batches_whatever_the_segments(
    link: SyncClient, topic: str, dice: random.Random
) -> None:
    """For any range; one that begins inside a batch does not include that batch."""
    sent = fill(link, topic, dice)
    end = mirror(link, topic).log_end_offset
    whole = digest(link, topic, 0, end)
    assert (whole.error_code, whole.next_offset, whole.high_watermark) == (0, end, end)
    assert blocks_of(whole) == expected(sent, 0, end)
    for _ in range(20):
        begin = dice.randrange(end)
        stop = dice.randrange(begin, end + 100)
        block = dice.choice([1, 7, 50, 10_000])
        part = digest(link, topic, begin, stop, block=block)
        assert blocks_of(part) == expected(sent, begin, stop, block)
        # The last batch of the range may end beyond it.
        assert part.next_offset >= min(stop, end)


def test_a_range_before_the_logs_start_is_refused_with_the_start(
    link: SyncClient, topic: str, dice: random.Random
) -> None:
    fill(link, topic, dice)
    start = mirror(link, topic, start=100).log_start_offset
    refused = digest(link, topic, 0, 200)
    assert refused.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert refused.log_start_offset == start
    assert digest(link, topic, 0, 9, block=0).error_code == ErrorCode.INVALID_REQUEST
    assert digest(link, "nil", 0, 9).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_flipped_bit_changes_the_digest_of_its_block_alone_and_a_broken_header_is_said(
    site: RunningCluster, link: SyncClient, topic: str, dice: random.Random
) -> None:
    """It is read from the disk, not from what was sent."""
    sent = fill(link, topic, dice)
    end = mirror(link, topic).log_end_offset
    good = blocks_of(digest(link, topic, 0, end))
    first = min((site.node(NODE).data_dir / "logs" / f"{topic}-0").glob("*.log"))
    _flip(first, 61 + 3)
    changed = blocks_of(digest(link, topic, 0, end))
    assert [one == other for one, other in zip(good, changed, strict=True)].count(False) == 1
    _flip(first, 61 + 3)
    _flip(first, 8)  # the high byte of the first batch's length
    broken = digest(link, topic, 0, end)
    assert broken.error_code == ErrorCode.CORRUPT_MESSAGE
    assert first.name in (broken.error_message or "")
    assert broken.next_offset <= next(iter_batches(sent))[1].base_offset
    _flip(first, 8)
    assert blocks_of(digest(link, topic, 0, end)) == good


def _flip(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 0x40]))

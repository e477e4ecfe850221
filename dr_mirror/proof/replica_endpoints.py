"""One partition at one broker, read as digests: from the broker's own disk, or through Fetch.

In: a channel, a range of offsets. Out: digests per block. Raises `EndpointError`. Core:
`dr_mirror.proof.plan.digests`. Never: a verdict.

A broker of ours with a mirror listener answers MirrorDigest, leader or follower, from its own disk;
of others the leader's records are fetched and digested here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from bus.client.model import TopicPartition
from bus.client.wire.channel import PeerChannel, PeerError
from bus.client.wire.errors import PeerErrorKind
from bus.client.wire.offset_requests import EARLIEST, LATEST, one_list_offsets
from bus.client.wire.one_fetch import FetchFrom, fetched, one_fetch
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.mirror_digest import (
    MirrorDigestRequest,
    PartitionMirrorDigest,
    PartitionMirrorDigestResult,
    TopicMirrorDigest,
)
from bus.protocol.wire import RequestMessage, ResponseT
from bus.records.batch import RecordsError
from bus.records.block_digest import BlockDigest
from dr_mirror.proof.plan.digests import BlockDigester

TIMEOUT_MS = 30_000
"""One question: megabytes over a slow link, or of a slow disk."""
FETCH_BYTES = 4 * 1024 * 1024
THROTTLED_S = 0.2
THROTTLED_TRIES = 50
"""A broker digests for others; ten seconds of it are a failure."""

Sleep = Callable[[float], Awaitable[None]]
OnBytes = Callable[[int], Awaitable[None]]
"""So many bytes came over the link; returns when more may."""


class EndpointError(Exception):
    """A side did not answer; the text says why."""


class EndpointSilent(EndpointError):
    """Its broker cannot be reached, or answers nothing; so it will be with its other partitions."""


class EndpointUnsupported(EndpointError):
    """It does not know MirrorDigest on this listener."""


class EndpointMoved(EndpointError):
    """Its log begins later than what was asked for."""

    def __init__(self, log_start: int) -> None:
        super().__init__(f"the log begins at {log_start}")
        self.log_start = log_start


@dataclass(frozen=True, slots=True)
class HeldRange:
    """[start, end) that a side holds and shows."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ReadBlocks:
    """The blocks of [first asked, next_offset). `fault`: the disk holds no batch at
    `next_offset`."""

    blocks: list[BlockDigest]
    next_offset: int
    fault: str = ""


class ReplicaEndpoint(Protocol):
    """One replica as it is compared."""

    async def held(self) -> HeldRange:
        """What there is. Raises EndpointError."""

    async def read(self, first: int, end: int, block_offsets: int) -> ReadBlocks:
        """Digests from `first` on, up to `end` or as far as one answer goes. Raises
        EndpointError."""


async def read_all(
    endpoint: ReplicaEndpoint, first: int, end: int, block_offsets: int
) -> ReadBlocks:
    """Answer after answer, as far as the side holds anything. A block larger than an answer comes
    in pieces. Raises EndpointError where nothing came."""
    found: list[BlockDigest] = []
    position, fault = first, ""
    while position < end:
        try:
            part = await endpoint.read(position, end, block_offsets)
        except EndpointError:
            if position == first:
                raise
            break
        found += part.blocks
        if part.next_offset <= position or part.fault:
            return ReadBlocks(found, max(part.next_offset, position), part.fault)
        position = part.next_offset
    return ReadBlocks(found, position, fault)


class DigestEndpoint:
    """A replica of a broker that answers MirrorDigest."""

    def __init__(self, channel: PeerChannel, topic: str, index: int, sleep: Sleep) -> None:
        self._channel = channel
        self._topic = topic
        self._index = index
        self._sleep = sleep

    async def held(self) -> HeldRange:
        """From its log start to its high watermark."""
        answer = await self._ask(0, 0, 1, may_move=True)
        return HeldRange(answer.log_start_offset, answer.high_watermark)

    async def read(self, first: int, end: int, block_offsets: int) -> ReadBlocks:
        """One answer."""
        answer = await self._ask(first, end, block_offsets)
        blocks = [
            BlockDigest(one.first_offset, one.end_offset, one.batches, one.records,
                        one.size_bytes, bytes(one.digest))
            for one in answer.blocks
        ]  # fmt: skip
        fault = ""
        if answer.error_code == ErrorCode.CORRUPT_MESSAGE:
            fault = answer.error_message or "the disk holds no batch here"
        return ReadBlocks(blocks, min(max(answer.next_offset, first), end), fault)

    async def _ask(
        self, first: int, end: int, block_offsets: int, *, may_move: bool = False
    ) -> PartitionMirrorDigestResult:
        partition = PartitionMirrorDigest(self._index, first, end, block_offsets)
        request = MirrorDigestRequest([TopicMirrorDigest(self._topic, [partition])])
        for _ in range(THROTTLED_TRIES):
            answer = await _answer(self._channel, ApiKey.MIRROR_DIGEST, request)
            result = answer.topics[0].partitions[0]
            if result.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED:
                await self._sleep(THROTTLED_S)
                continue
            if result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                if may_move:
                    return result
                raise EndpointMoved(result.log_start_offset)
            if result.error_code not in (0, ErrorCode.CORRUPT_MESSAGE):
                raise _refused(self._channel, result.error_code, result.error_message or "")
            return result
        raise EndpointError(f"{self._channel.name} digests for others all the time")


class FetchEndpoint:
    """The leader of any cluster; everything comes over the link."""

    def __init__(
        self, channel: PeerChannel, topic: str, topic_id: bytes, index: int,
        on_bytes: OnBytes | None = None,
    ) -> None:  # fmt: skip
        self._channel = channel
        self._topic = topic
        self._topic_id = topic_id
        self._index = index
        self._on_bytes = on_bytes

    async def held(self) -> HeldRange:
        """From its log start to its high watermark."""
        return HeldRange(await self._offset(EARLIEST), await self._offset(LATEST))

    async def read(self, first: int, end: int, block_offsets: int) -> ReadBlocks:
        """All of it, in as many fetches as it takes; one of them is in memory."""
        digester = BlockDigester(block_offsets)
        position = first
        while position < end:
            try:
                following = digester.add(await self.records(position), position, end)
            except RecordsError as error:
                return ReadBlocks(digester.finish(), position, error.detail)
            if following <= position:  # a hole up to the end of what there is
                break
            position = following
        return ReadBlocks(digester.finish(), end)

    async def records(self, position: int) -> memoryview:
        """Batches from `position` on, as one answer holds them. Raises EndpointError."""
        start = FetchFrom(self._topic, position)
        request = one_fetch((self._topic_id, self._index), start, max_bytes=FETCH_BYTES)
        answer = await _answer(self._channel, ApiKey.FETCH, request)
        if answer.error_code:
            raise _refused(self._channel, answer.error_code)
        data = answer.responses[0].partitions[0]
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise EndpointMoved(await self._offset(EARLIEST))
        if data.error_code:
            raise _refused(self._channel, data.error_code)
        records = memoryview(fetched(data.records))
        if self._on_bytes is not None:
            await self._on_bytes(len(records))
        return records

    async def _offset(self, timestamp: int) -> int:
        request = one_list_offsets(TopicPartition(self._topic, self._index), timestamp)
        answer = await _answer(self._channel, ApiKey.LIST_OFFSETS, request)
        result = answer.topics[0].partitions[0]
        if result.error_code:
            raise _refused(self._channel, result.error_code)
        return result.offset


async def is_supported(endpoint: DigestEndpoint) -> bool:
    """Whether its broker answers MirrorDigest on this listener. Raises EndpointError."""
    try:
        await endpoint.held()
    except EndpointUnsupported:
        return False
    return True


async def _answer(
    channel: PeerChannel, api_key: int, request: RequestMessage[ResponseT]
) -> ResponseT:
    try:
        return await channel.request(api_key, request, timeout_ms=TIMEOUT_MS)
    except PeerError as error:
        is_unsupported = error.kind is PeerErrorKind.UNSUPPORTED_VERSION
        raise (EndpointUnsupported if is_unsupported else EndpointSilent)(str(error)) from None


def _refused(channel: PeerChannel, error_code: int, message: str = "") -> EndpointError:
    code = ErrorCode.of(error_code)
    return EndpointError(f"{channel.name}: {code.name}{': ' if message else ''}{message}")

"""Hostile or faulty clients: they send requests without end, or do not read.

In: a broker's address. Out: bytes on a simulated connection, and how many answers came back. Never:
a frame that a Kafka client could not send.
"""

from __future__ import annotations

import asyncio
from typing import cast

from bus.protocol.apis import ApiKey
from bus.protocol.frames import encode_request
from bus.protocol.generated.api_versions import ApiVersionsRequest
from bus.protocol.generated.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.simulation.client import ClientSurroundings

MOST_BYTES = 2**31 - 1
FETCH_VERSION = 12
"""The last version with topic names."""


class Hostile(asyncio.Protocol):
    """One connection that writes everything at once.

    `reads`: whether it ever reads answers from its socket.
    """

    def __init__(self, *, reads: bool) -> None:
        self._reads = reads
        self._transport: asyncio.Transport | None = None
        self.read_bytes = 0
        self.lost = False

    @classmethod
    async def open(
        cls, around: ClientSurroundings, host: str, port: int, *, reads: bool
    ) -> Hostile:
        """Connect. Raises OSError."""
        _, protocol = await around.network.connect(host, port, lambda: cls(reads=reads))
        return cast(Hostile, protocol)

    def write(self, data: bytes) -> None:
        """Writes everything; bytes that the other side does not accept wait here."""
        if self._transport is not None:
            self._transport.write(data)

    def close(self) -> None:
        """Reset."""
        if self._transport is not None:
            self._transport.abort()

    # --- asyncio's side --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if not self._reads:
            self._transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        self.read_bytes += len(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True


def many_api_versions(count: int) -> bytes:
    """Many of the cheapest requests."""
    return b"".join(
        b"".join(encode_request(ApiKey.API_VERSIONS, 2, number, "hostile", ApiVersionsRequest()))
        for number in range(count)
    )


def many_fetches(count: int, topic: str, partition: int, *, min_bytes: int = 1) -> bytes:
    """Many fetches with the largest possible answers, from the beginning of a partition."""
    request = FetchRequest(
        max_wait_ms=200, min_bytes=min_bytes, max_bytes=MOST_BYTES, session_epoch=-1,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(
                        partition=partition, fetch_offset=0, partition_max_bytes=MOST_BYTES
                    )
                ],
            )
        ],
    )  # fmt: skip
    return b"".join(
        b"".join(encode_request(ApiKey.FETCH, FETCH_VERSION, number, "hostile", request))
        for number in range(count)
    )

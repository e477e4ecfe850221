"""Clients that mean no good, on real sockets: they ask without end, or never read.

    python -m deploy.bench.hostile_client unread --at HOST:PORT/PARTITION … --topic T --seconds 60
In: addresses of brokers, with the partition that each leads. Out: one JSON line of counts.
Never: a request that a Kafka client could not send.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any, cast

from bus.protocol.apis import ApiKey
from bus.protocol.frames import encode_request
from bus.protocol.generated.api_versions import ApiVersionsRequest
from bus.protocol.generated.fetch import FetchPartition, FetchRequest, FetchTopic

RECEIVE_BUFFER_BYTES = 4096
MOST_BYTES = (1 << 31) - 1
NAMED_TOPICS_VERSION = 12  # of Fetch: the last one without topic ids
CLIENT_ID = "hostile"
AGAIN_S = 0.2  # a closed connection is opened again


def api_versions(count: int) -> bytes:
    """The cheapest request there is, many times."""
    body = ApiVersionsRequest()
    return b"".join(
        b"".join(encode_request(ApiKey.API_VERSIONS, 2, number, CLIENT_ID, body))
        for number in range(count)
    )


def fetches(count: int, topic: str, partition: int) -> bytes:
    """The largest answers there are, from a partition's beginning, many times."""
    asked = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=MOST_BYTES)
    body = FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=MOST_BYTES, session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[asked])],
    )  # fmt: skip
    return b"".join(
        b"".join(encode_request(ApiKey.FETCH, NAMED_TOPICS_VERSION, number, CLIENT_ID, body))
        for number in range(count)
    )


def connect_unread(host: str, port: int) -> socket.socket:
    """A connection that the kernel cannot take much for."""
    made = socket.socket(socket.AF_INET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
    made.settimeout(30)
    made.connect((host, port))
    return made


async def unread(words: argparse.Namespace) -> dict[str, object]:
    """So many connections, each with so many fetches, none of which is ever read."""
    places = [_place(text) for text in words.at]
    held: list[tuple[socket.socket, tuple[str, int, int]]] = []
    made = 0
    ends = time.monotonic() + words.seconds
    while time.monotonic() < ends:
        held = [(one, place) for one, place in held if not _is_closed(one)]
        while len(held) < words.connections:
            place = places[made % len(places)]
            one = await asyncio.to_thread(connect_unread, *place[:2])
            await asyncio.to_thread(one.sendall, fetches(words.requests, words.topic, place[2]))
            held.append((one, place))
            made += 1
        await asyncio.sleep(AGAIN_S)
    return {"connections": made, "closed": made - len(held)}


def _is_closed(one: socket.socket) -> bool:
    """Looked for without reading: an error is pending, or the end has come behind nothing."""
    return one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0


class Flooder(asyncio.Protocol):
    """Writes all it has at once; when as many bytes have come back as the first answer promises,
    again."""

    def __init__(self, data: bytes, count: int, ends: float) -> None:
        self._data, self._count, self._ends = data, count, ends
        self._expected = 0
        self._came = 0
        self._head = b""
        self.answered = 0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._data)

    def data_received(self, data: bytes) -> None:
        if not self._expected:
            self._head += data[:4]
            self._expected = 4 + int.from_bytes(self._head[:4], "big")
        self._came += len(data)
        while self._came >= self._expected * self._count and self._transport is not None:
            self._came -= self._expected * self._count
            self.answered += self._count
            if time.monotonic() < self._ends:
                self._transport.write(self._data)


async def flood(words: argparse.Namespace) -> dict[str, object]:
    """So many connections, each with so many requests in one write, again and again."""
    places = [_place(text) for text in words.at]
    data = api_versions(words.requests)
    loop, ends = asyncio.get_running_loop(), time.monotonic() + words.seconds
    flooders: list[Flooder] = []
    for number in range(words.connections):
        host, port, _ = places[number % len(places)]
        _, flooder = await loop.create_connection(
            lambda: Flooder(data, words.requests, ends), host, port
        )
        flooders.append(flooder)
    await asyncio.sleep(words.seconds)
    return {"answered": sum(one.answered for one in flooders)}


def _place(text: str) -> tuple[str, int, int]:
    """`HOST:PORT/PARTITION`."""
    address, _, partition = text.partition("/")
    host, _, port = address.rpartition(":")
    return host, int(port), int(partition or 0)


PROGRAMS: dict[str, Callable[[argparse.Namespace], Coroutine[Any, Any, dict[str, Any]]]] = {
    "unread": unread,
    "flood": flood,
}


def main(arguments: list[str]) -> None:
    """Run one program and print its one line."""
    parser = argparse.ArgumentParser(prog="deploy.bench.hostile_client")
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("--at", nargs="+", required=True, help="HOST:PORT/PARTITION")
    parser.add_argument("--topic", default="bench")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--connections", type=int, default=100)
    parser.add_argument("--requests", type=int, default=64)
    words = parser.parse_args(arguments)
    print(json.dumps(asyncio.run(PROGRAMS[words.program](words))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

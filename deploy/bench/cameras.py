"""Cameras as they are: many connections, each a record now and then, one a request, acks=all.

    python -m deploy.bench.cameras --bootstrap HOST:PORT --connections 500 --rate 5 --seconds 10
In: words. Out: one JSON line on stdout: how many were acknowledged, and percentiles of the time
from the request to its acknowledgement. Never: knowing which broker it talks to.

librdkafka takes threads for each producer; thousands of them in a process would measure the client.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import time
from collections import deque
from typing import cast

import uvloop

from bus.client.wire.connection import FrameAssembler
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.frames import decode_response, encode_request
from bus.protocol.generated.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from bus.records.build import build_batch
from bus.records.record import Record
from deploy.bench.load import PARTITIONS, percentiles

PRODUCE_VERSION = 9  # flexible, and topics still by name; both brokers serve it
RECORD_BYTES = 600  # a vehicle's JSON
ACK_TIMEOUT_MS = 30_000
END_TIMEOUT_S = 30
CONNECTING_AT_ONCE = 100
TICK_S = 0.001


class Camera(asyncio.BufferedProtocol):
    """One connection. Invariant: `sent_s` has the moment of each request not yet acknowledged."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._frames = FrameAssembler()
        self._transport: asyncio.Transport | None = None
        self.sent_s: deque[float] = deque()
        self.times_ms: list[float] = []
        self.failures = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are no subclass

    def connection_lost(self, exc: Exception | None) -> None:
        self.failures += len(self.sent_s)
        self._transport = None

    def send(self) -> None:
        """The next record; a connection that was lost counts as a failure."""
        if self._transport is None:
            self.failures += 1
            return
        self.sent_s.append(time.perf_counter())
        self._transport.write(self._request)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.writable()

    def buffer_updated(self, nbytes: int) -> None:
        now_s = time.perf_counter()
        for frame in self._frames.received(nbytes):
            self.times_ms.append((now_s - self.sent_s.popleft()) * 1000)
            self.failures += _error_of(frame) != ErrorCode.NONE

    def close(self) -> None:
        """Stops sending."""
        if self._transport is not None:
            self._transport.close()


def _error_of(frame: memoryview) -> int:
    _, message = decode_response(ApiKey.PRODUCE, PRODUCE_VERSION, frame)
    return int(message.responses[0].partition_responses[0].error_code)


def _requests(topic: str) -> list[bytes]:
    """The same record for each partition, as bytes to send again and again."""
    batch = bytes(build_batch([Record(None, os.urandom(RECORD_BYTES))]))
    found = []
    for index in range(PARTITIONS):
        data = [PartitionProduceData(index=index, records=batch)]
        topics = [TopicProduceData(name=topic, partition_data=data)]
        body = ProduceRequest(acks=-1, timeout_ms=ACK_TIMEOUT_MS, topic_data=topics)
        chunks = encode_request(ApiKey.PRODUCE, PRODUCE_VERSION, 1, "camera", body)
        found.append(b"".join(chunks))
    return found


async def run(words: argparse.Namespace) -> dict[str, float]:
    """Connect all, let each send at its own moments for so long, wait for the last answers."""
    host, _, port = words.bootstrap.rpartition(":")
    requests = _requests(words.topic)
    cameras = [Camera(requests[n % PARTITIONS]) for n in range(words.connections)]
    for first in range(0, len(cameras), CONNECTING_AT_ONCE):
        some = cameras[first : first + CONNECTING_AT_ONCE]
        await asyncio.gather(*(_connect(camera, host, int(port)) for camera in some))
    try:
        return await _traffic(cameras, words.rate, words.seconds)
    finally:
        for camera in cameras:
            camera.close()


async def _connect(camera: Camera, host: str, port: int) -> None:
    await asyncio.get_running_loop().create_connection(lambda: camera, host, port)


async def _traffic(cameras: list[Camera], rate: float, seconds: float) -> dict[str, float]:
    """The cameras take turns, evenly over time: each has its own clock."""
    total = int(len(cameras) * rate * seconds)
    pause_s, start_s, sent = 1 / (len(cameras) * rate), time.perf_counter(), 0
    while sent < total:
        due = min(total, int((time.perf_counter() - start_s) / pause_s) + 1)
        while sent < due:
            cameras[sent % len(cameras)].send()
            sent += 1
        await asyncio.sleep(TICK_S)
    deadline_s = time.perf_counter() + END_TIMEOUT_S
    while any(camera.sent_s for camera in cameras) and time.perf_counter() < deadline_s:
        await asyncio.sleep(0.01)
    failures = sum(camera.failures + len(camera.sent_s) for camera in cameras)
    if failures:
        raise SystemExit(f"{failures} of {total} records were not acknowledged")
    times_ms = [each for camera in cameras for each in camera.times_ms]
    return {"acknowledged": len(times_ms), **percentiles(times_ms)}


def main() -> None:
    """Run and print the one line."""
    parser = argparse.ArgumentParser(prog="deploy.bench.cameras")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", default="bench")
    parser.add_argument("--connections", type=int, default=500)
    parser.add_argument("--rate", type=float, default=5, help="records a second, each connection")
    parser.add_argument("--seconds", type=float, default=10)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print(json.dumps(uvloop.run(run(parser.parse_args()))), flush=True)


if __name__ == "__main__":
    main()

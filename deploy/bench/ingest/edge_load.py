"""Fifty recognition servers that post to the edge.

    python -m deploy.bench.ingest.edge_load --port 8650 --seconds 20 --rate 3000
In: the edge's port; a rate, or none for as fast as it goes. Out: records acknowledged per second
and the p99 of an answer since its request was due, as JSON. Never: two requests of one connection
under way at once, as a server has none.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Iterator, Sequence

from bus.domain.times import local_time
from bus.runtime.wall_clock import now_ms
from bus.settings import SiteSettings
from deploy.bench.ingest.devices import devices
from deploy.bench.ingest.product import Arrangement, running
from deploy.bench.ingest.role_processes import role_cpu_s
from deploy.bench.program import answer_of_program, module_command
from deploy.errors import OperatorError

CONNECTIONS = 50
RECORDS_PER_REQUEST = 10
"""What a recognition server has gathered when it posts: ten cameras' worth of a tenth of a
second."""
STEADY_RATE = 3_000
SECONDS = 20
WARM_UP_S = 5.0


def measured() -> dict[str, float]:
    """Records per second, and the p99 of an answer in milliseconds, on one machine."""
    with running(Arrangement.A) as product:
        port = str(product.port("edge"))
        before_s = role_cpu_s(product, "edge")
        steady = _run(port, "--rate", str(STEADY_RATE))
        used_s = role_cpu_s(product, "edge") - before_s
        fastest = _run(port)
    return {
        "ingest-edge": fastest["records_per_s"],
        "ingest-edge-p99": steady["p99_ms"],
        "ingest-edge-us": used_s / steady["records"] * 1e6,
    }


def _run(port: str, *words: str) -> dict[str, float]:
    command = module_command("deploy.bench.ingest.edge_load", "--port", port, *words)
    return answer_of_program(command, "the load on the edge", 120)


def requests(seen: Sequence[dict[str, object]]) -> Iterator[bytes]:
    """Whole HTTP requests without end, each of records that these devices captured just now."""
    clock, number = local_time(SiteSettings().zone), 0
    while True:
        records = []
        for _ in range(RECORDS_PER_REQUEST):
            number += 1
            text = clock.to_text(now_ms())
            records.append({**seen[number % len(seen)], "抓拍时间": text})
        lines = [json.dumps(record, ensure_ascii=False) for record in records]
        body = f"[{','.join(lines)}]".encode()
        head = (
            "POST /v1/records/vehicle HTTP/1.1\r\nHost: edge\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        yield head.encode() + body


async def converse(
    port: int,
    seen: Sequence[dict[str, object]],
    times: Iterator[float],
    answers: list[tuple[float, float]],
) -> None:
    """One connection that posts when it is due: (when, how long) of every answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for due_s, request in zip(times, requests(seen), strict=False):
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 202")):
                raise OperatorError(f"the edge refused: {head[:200]!r}")
            await reader.readexactly(_length_of(head))
            ended = time.monotonic()
            answers.append((ended, ended - due_s))
    finally:
        writer.close()


def _length_of(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    raise OperatorError("an answer without a length")


def _times(first_s: float, until_s: float, every_s: float) -> Iterator[float]:
    """When each request of a connection is due; without an interval, when the one before is
    answered."""
    due_s = first_s
    while due_s < until_s:
        yield due_s
        due_s = due_s + every_s if every_s else time.monotonic()


async def _load(port: int, seconds: float, rate: float) -> dict[str, float]:
    answers: list[tuple[float, float]] = []
    everybody = devices()
    every_s = CONNECTIONS * RECORDS_PER_REQUEST / rate if rate else 0.0
    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for connection in range(CONNECTIONS):
            own = everybody[connection::CONNECTIONS]
            first_s = began + every_s * connection / CONNECTIONS
            times = _times(first_s, began + seconds, every_s)
            group.create_task(converse(port, own, times, answers))
    warm = sorted(took for at, took in answers if at >= began + WARM_UP_S)
    return {
        "records": len(answers) * RECORDS_PER_REQUEST,
        "records_per_s": len(warm) * RECORDS_PER_REQUEST / (seconds - WARM_UP_S),
        "p99_ms": warm[len(warm) * 99 // 100] * 1000,
    }


def main() -> None:
    """Runs for the time that is asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--rate", type=float, default=0.0)
    asked = parser.parse_args()
    print(json.dumps(asyncio.run(_load(asked.port, asked.seconds, asked.rate))))


if __name__ == "__main__":
    main()

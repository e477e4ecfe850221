"""CPU per record, added delay and memory of our mirror and of MirrorMaker 2; many partitions.

In: which pair of brokers. Out: figures. What is measured is the mirroring process alone. Never: a
figure of a mirror that is still starting: each runs `WARM_S` first.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import psutil

from bus.client.admin import commands
from bus.client.wire.sync_client import SyncClient
from deploy.bench.mirror.sides import (
    NONE,
    OURS,
    PARTITIONS,
    TOPIC,
    BrokerPair,
    MirroringSide,
    end,
    load,
    pair_of_ours,
)

CPU, DELAY, MEMORY = "cpu", "delay", "memory"
RECORDS = 1_000_000
RATE, RATE_S = 1000, 30
WARM_S = 60.0
MANY_PARTITIONS, BUSY_PARTITIONS = 1000, 100

OpenPair = Callable[[Path], AbstractContextManager[BrokerPair]]


def run_side(side: MirroringSide, open_pair: OpenPair, wanted: Sequence[str]) -> dict[str, float]:
    """The figures of one side, on a pair of brokers of its own."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="bench-mirror-") as name, open_pair(Path(name)) as pair:
        _create_topic(pair, PARTITIONS)
        mirror = side.start(Path(name) / "mirror", pair, NONE)
        try:
            load("warm", pair, side.topic, 100, int(WARM_S))
            before = _cpu_s(mirror)
            load("backlog", pair, side.topic, RECORDS, 0)
            found[CPU] = RECORDS / max(_cpu_s(mirror) - before, 0.01)
            if DELAY in wanted:
                found[DELAY] = load("rate", pair, side.topic, RATE, RATE_S)["p99_ms"]
            found[MEMORY] = psutil.Process(mirror.pid).memory_info().rss / 1e6
        finally:
            end(mirror)
    return {what: value for what, value in found.items() if what in wanted}


def delay_of_many() -> dict[str, float]:
    """The added delay, p99, with a thousand partitions of which a tenth is busy, beside ten."""
    few = _delay(PARTITIONS, PARTITIONS)
    return {"many": _delay(MANY_PARTITIONS, BUSY_PARTITIONS) / few}


def _delay(partitions: int, busy: int) -> float:
    with (
        tempfile.TemporaryDirectory(prefix="bench-mirror-") as name,
        pair_of_ours(Path(name)) as pair,
    ):
        _create_topic(pair, partitions)
        mirror = OURS.start(Path(name) / "mirror", pair, NONE)
        try:
            load("warm", pair, TOPIC, 100, int(WARM_S), busy)
            return load("rate", pair, TOPIC, RATE, RATE_S, busy)["p99_ms"]
        finally:
            end(mirror)


def _create_topic(pair: BrokerPair, partitions: int) -> None:
    with SyncClient(pair.source, "bench") as client:
        commands.create_topic(client, TOPIC, partitions=partitions)


def _cpu_s(process: subprocess.Popen[bytes]) -> float:
    times = psutil.Process(process.pid).cpu_times()
    return float(times.user + times.system)

"""CPU per record, added delay and memory of our mirror and of MirrorMaker 2; many partitions.

In: which pair of brokers. Out: figures. What is measured is the mirroring process alone. Never: a
figure of a mirror that is still starting: each runs `WARM_S` first.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

import psutil

from deploy.bench.mirror.bench_mirror import (
    OURS,
    PARTITIONS,
    BenchMirror,
    MirroringRun,
    OpenPair,
    load,
    mirroring,
    pair_of_ours,
)

CPU, DELAY, MEMORY = "cpu", "delay", "memory"
RECORDS = 1_000_000
RATE, RATE_S = 1000, 30
WARM_S = 60
WARM_AT_RATE_S = 20
"""Before a delay is measured: what a JVM has compiled for a backlog fits no single records, and its
first seconds with those would be the p99."""
MANY_PARTITIONS, BUSY_PARTITIONS = 1000, 100


def run_bench_mirror(
    bench_mirror: BenchMirror, open_pair: OpenPair, wanted: Sequence[str]
) -> dict[str, float]:
    """The figures of one side, on a pair of brokers of its own."""
    found = {}
    with mirroring(bench_mirror, open_pair, warm_s=WARM_S) as run:
        before = _cpu_s(run.process)
        load("backlog", run.pair, bench_mirror.topic, RECORDS, 0)
        found[CPU] = RECORDS / max(_cpu_s(run.process) - before, 0.01)
        if DELAY in wanted:
            found[DELAY] = _delay(run, PARTITIONS)
        found[MEMORY] = psutil.Process(run.process.pid).memory_info().rss / 1e6
    return {what: value for what, value in found.items() if what in wanted}


def delay_of_many() -> dict[str, float]:
    """The added delay, p99, with a thousand partitions of which a tenth is busy, beside ten."""
    few = _delay_of(PARTITIONS, PARTITIONS)
    return {"many": _delay_of(MANY_PARTITIONS, BUSY_PARTITIONS) / few}


def _delay_of(partitions: int, busy: int) -> float:
    with mirroring(OURS, pair_of_ours, warm_s=WARM_S, partitions=partitions, busy=busy) as run:
        return _delay(run, busy)


def _delay(run: MirroringRun, busy: int) -> float:
    load("rate", run.pair, run.bench_mirror.topic, RATE, WARM_AT_RATE_S, busy)
    return load("rate", run.pair, run.bench_mirror.topic, RATE, RATE_S, busy)["p99_ms"]


def _cpu_s(process: subprocess.Popen[bytes]) -> float:
    times = psutil.Process(process.pid).cpu_times()
    return float(times.user + times.system)

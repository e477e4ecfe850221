"""The figures of the broker, ours and Apache Kafka's in turn, the client always the same program.

In: how often. Out: samples so far after every round. Never: both brokers running at once.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from deploy.bench.program import answer_of_program, module_command
from deploy.bench.report import Samples
from deploy.bench.samples import SampleRecorder, Say, attempt
from deploy.bench.targets import Target, apache_kafka, our_broker

SECONDS = 5.0
CLIENT_TIMEOUT_S = 300
CAMERAS_WARM_S, CAMERAS_S = 5, 15
SETTLE_S = 2.0  # after the warm-up: flushes, the compiler's threads
WARM_UP, HOT = "warm-up", "hot"
MB = 1_000_000
GIGABYTE_RECORDS = 1_000_000  # of 1 kB
Start = Callable[[Path], AbstractContextManager[Target]]


def produce_single(target: Target) -> float:
    """Requests of one record each, five in flight, acks=all."""
    return float(_client(target, "produce", "--batch", "1")["records_per_s"])


def produce_batches(target: Target) -> float:
    """Batches of 16 records of 1 KiB."""
    return float(_client(target, "produce", "--batch", "16")["bytes_per_s"]) / MB


def consume_hot(target: Target) -> float:
    """What was just produced, still in the page cache."""
    hot = ("--topic", HOT)
    _client(target, "create", *hot)
    _client(target, "produce", *hot, "--batch", "64", "--limit", "300000", "--seconds", "30")
    return float(_client(target, "consume", *hot, "--seconds", "30")["bytes_per_s"]) / MB


def ack_idle(target: Target) -> float:
    """One record every ten milliseconds, once what the figures before it wrote is on the disk."""
    _settle()
    return float(_client(target, "acknowledge")["p99"])


def memory(target: Target) -> float:
    """After 1 GB written and read."""
    limit = str(GIGABYTE_RECORDS)
    words = ("--record-bytes", "1000", "--batch", "16", "--limit", limit, "--seconds", "250")
    _client(target, "produce", *words)
    _client(target, "consume", "--seconds", "25")
    return target.rss_bytes / MB


def cameras(connections: int, rate: float, target: Target) -> tuple[float, float]:
    """Processor time of the broker per record in µs, and the acknowledgements' p99 in ms."""
    words = ("--connections", str(connections), "--rate", str(rate))
    _run(target, "deploy.bench.cameras", *words, "--seconds", str(CAMERAS_WARM_S))
    before_s = target.cpu_s
    seen = _run(target, "deploy.bench.cameras", *words, "--seconds", str(CAMERAS_S))
    return (target.cpu_s - before_s) / seen["acknowledged"] * 1e6, float(seen["p99"])


CAMERAS: dict[str, Callable[[Target], tuple[float, float]]] = {
    "cameras-500": partial(cameras, 500, 5),
    "cameras-4000": partial(cameras, 4000, 0.5),
}
CAMERA_FIGURES = {name: (f"{name}-cpu", f"{name}-ack") for name in CAMERAS}
MEASURES: dict[str, Callable[[Target], float]] = {
    "produce-single": produce_single,
    "produce-batches": produce_batches,
    "consume-hot": consume_hot,
    "ack-idle": ack_idle,
}
MEMORY = "memory"  # of a process that has done nothing else
NAMES = (*MEASURES, *(one for both in CAMERA_FIGURES.values() for one in both), MEMORY)


def measure(names: Sequence[str], repeat: int, say: Say) -> Iterator[Samples]:
    """Runs of the chosen figures, the two brokers in turn so that a noisy minute strikes both."""
    recorder = SampleRecorder(names, repeat, say)
    chosen = [name for name in names if name != MEMORY]
    for _ in range(repeat if names else 0):
        for start in (our_broker, apache_kafka):
            if chosen:
                attempt("a warm broker", partial(_warm, start, chosen, recorder, say), say)
            if MEMORY in names:
                attempt(MEMORY, partial(_memory, start, recorder), say)
        yield from recorder.samples()


def _warm(start: Start, names: Sequence[str], recorder: SampleRecorder, say: Say) -> None:
    """One broker, warmed up, measured figure by figure."""
    with _fresh(start) as target:
        _warm_up(target)
        is_kafka = start is apache_kafka
        for name in [name for name in names if name in MEASURES]:
            value = attempt(name, partial(MEASURES[name], target), say)
            if value is not None:
                recorder.add(name, value, of=target.name, is_kafka=is_kafka)
        for which, figures in CAMERA_FIGURES.items():
            if not set(figures) & set(names):
                continue
            both = attempt(which, partial(CAMERAS[which], target), say)
            for figure, value in zip(figures, both or (), strict=False):
                if figure in names:
                    recorder.add(figure, value, of=target.name, is_kafka=is_kafka)


def _memory(start: Start, recorder: SampleRecorder) -> None:
    """A broker that has done nothing else."""
    with _fresh(start) as target:
        value = memory(target)
        recorder.add(MEMORY, value, of=target.name, is_kafka=start is apache_kafka)


def _warm_up(target: Target) -> None:
    """A JVM needs its compiler to have seen the paths; ours gets the same."""
    for batch in ("1", "16"):
        _client(target, "produce", "--batch", batch, "--topic", WARM_UP, "--seconds", "5")
    _client(target, "consume", "--topic", WARM_UP, "--seconds", "10")
    _settle()


def _settle() -> None:
    """What was written reaches the disk: a kernel that writes back is no idle machine."""
    os.sync()
    time.sleep(SETTLE_S)


@contextmanager
def _fresh(start: Start) -> Iterator[Target]:
    with (
        tempfile.TemporaryDirectory(prefix="databus-bench-", ignore_cleanup_errors=True) as folder,
        start(Path(folder)) as target,
    ):
        _client(target, "create")
        _client(target, "create", "--topic", WARM_UP)
        yield target


def _client(target: Target, program: str, *words: str) -> dict[str, Any]:
    if "--seconds" not in words:
        words = (*words, "--seconds", str(SECONDS))
    return _run(target, "deploy.bench.load", program, *words)


def _run(target: Target, module: str, *words: str) -> dict[str, Any]:
    command = module_command(module, "--bootstrap", target.bootstrap, *words)
    return answer_of_program(command, f"{module} on {target.name}", CLIENT_TIMEOUT_S)

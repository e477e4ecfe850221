"""`bench cleaner`: what a pass costs the broker and those who write to it meanwhile.

In: how often. Out: the p99 of acknowledgements while a pass runs, as a multiple of that without a
cleaner; what the broker's own process has more in memory. Both brokers serve a copy of the same
data, one after the other. Never: a sample of a pass that had ended before the last answer.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from deploy.bench.program import answer_of_program, module_command
from deploy.bench.samples import SampleRecorder
from deploy.errors import OperatorError
from deploy.servers.databus import RunningBroker, start_broker

ACK, BROKER_MEMORY = "cleaner-ack", "cleaner-broker-memory"
FIGURES = (ACK, BROKER_MEMORY)

TABLE = "table"
TABLE_RECORDS = 2_000_000
"""Of 1 KiB: a pass takes longer than what is measured beside it."""
LIVE_KEYS = 200_000
SECONDS = 5
WARM_S = 2
SETTLE_S = 2.0
WAIT_S = 120.0
BUSY_SHARE = 0.2
"""Of the measured time, which the cleaner's process must have computed: it is niced."""
NO_CLEANER = {"log.cleaner.enable": "false"}
AT_ONCE = {"log.cleaner.backoff.ms": "100", "log.cleaner.min.cleanable.ratio": "0.01"}
TABLE_CONFIG = ("cleanup.policy=compact", f"segment.bytes={100 << 20}")


class BrokerSample(NamedTuple):
    """``p99_ms`` of acknowledgements; ``memory_mb`` of the broker's process at the end."""

    p99_ms: float
    memory_mb: float


def measure_pair(folder: Path, recorder: SampleRecorder, names: tuple[str, ...]) -> None:
    """Without a cleaner, then beside one."""
    without = _run(folder, NO_CLEANER)
    beside = _run(folder, AT_ONCE)
    if ACK in names:
        recorder.add(ACK, beside.p99_ms / without.p99_ms, of="ours")
    if BROKER_MEMORY in names:
        recorder.add(BROKER_MEMORY, beside.memory_mb - without.memory_mb, of="ours")


def _run(folder: Path, properties: Mapping[str, str]) -> BrokerSample:
    with _served_copy(folder, properties) as broker:
        _acknowledged(broker, WARM_S)
        child = None if properties is NO_CLEANER else _until_cleaning(broker)
        before_s = _cpu_s(child)
        answer = _acknowledged(broker, SECONDS)
        if child is not None:
            if _cpu_s(child) - before_s < BUSY_SHARE * SECONDS:
                raise OperatorError("the pass ended before the last acknowledgement")
            _until_cleaned(broker)
        memory_mb = psutil.Process(broker.pid).memory_info().rss / 1e6
        return BrokerSample(float(answer["p99"]), memory_mb)


@contextmanager
def _served_copy(folder: Path, properties: Mapping[str, str]) -> Iterator[RunningBroker]:
    """A broker of a copy of the table's data, which is made once."""
    made, used = folder / "beside", folder / "beside-used"
    if not made.exists():
        _make_table(made)
    shutil.rmtree(used, ignore_errors=True)
    shutil.copytree(made, used)
    os.sync()
    time.sleep(SETTLE_S)  # a kernel that writes back is no idle machine
    broker = start_broker(used, properties)
    try:
        yield broker
    finally:
        broker.stop()
        shutil.rmtree(used, ignore_errors=True)


def _make_table(directory: Path) -> None:
    broker = start_broker(directory, NO_CLEANER)
    table = ("--topic", TABLE, "--partitions", "1")
    try:
        config = [word for each in TABLE_CONFIG for word in ("--config", each)]
        _load(broker, "create", *table, *config)
        _load(broker, "produce", *table, "--batch", "16", "--keys", str(LIVE_KEYS),
              "--limit", str(TABLE_RECORDS), "--seconds", str(WAIT_S))  # fmt: skip
    finally:
        broker.stop()


def _acknowledged(broker: RunningBroker, seconds: float) -> dict[str, float]:
    """A record every ten milliseconds, to a topic that is no table."""
    return _load(broker, "acknowledge", "--topic", "bench", "--seconds", str(seconds))


def _load(broker: RunningBroker, *words: str) -> dict[str, float]:
    command = module_command("deploy.bench.load", *words, "--bootstrap", broker.bootstrap)
    return answer_of_program(command, "the load program", 2 * WAIT_S)


def _until_cleaning(broker: RunningBroker) -> psutil.Process:
    """The cleaner's process, once it works."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        for child in psutil.Process(broker.pid).children():
            before_s = _cpu_s(child)
            time.sleep(0.2)
            if _cpu_s(child) - before_s > 0.2 * BUSY_SHARE:
                return child
    raise OperatorError("no pass began")


def _until_cleaned(broker: RunningBroker) -> None:
    checkpoint = broker.data_dir / "logs" / "cleaner-offset-checkpoint"
    deadline = time.monotonic() + WAIT_S
    while not (checkpoint.exists() and f"{TABLE} 0 " in checkpoint.read_text("utf-8")):
        if time.monotonic() > deadline:
            raise OperatorError("the pass did not end")
        time.sleep(0.1)


def _cpu_s(process: psutil.Process | None) -> float:
    """Processor time so far; 0 without one."""
    with suppress(psutil.NoSuchProcess):
        if process is not None:
            times = process.cpu_times()
            return float(times.user + times.system)
    return 0.0

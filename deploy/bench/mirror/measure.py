"""`bench mirror`: CPU per record, added delay and memory of our mirror and of MirrorMaker 2.

In: how often. Out: samples, ours and MirrorMaker's. Both copy the same records from the same kind
of broker to the same kind of broker, each with a fresh pair: two of ours, where our mirror appends
the same bytes at the same offsets, and for the figures `apache-…` two of Apache Kafka, where it
produces as MirrorMaker does. What is measured is the mirroring process alone. Never: a figure of a
mirror that is still starting: each runs `WARM_S` first.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from bus.client.admin import commands
from bus.client.wire.sync_client import SyncClient
from deploy.bench.report import Samples
from deploy.bench.samples import SampleRecorder, Say, attempt
from deploy.errors import OperatorError
from deploy.paths import PROJECT_ROOT
from deploy.testservers.databus_cluster import start_cluster
from deploy.testservers.kafka import start_kafka
from deploy.testservers.mirror_maker import ALIAS, start_mirror_maker

PREFIX = "mirror-"
CPU, DELAY, MEMORY = "cpu", "delay", "memory"
OF_APACHE = "apache-"
NAMES = tuple(PREFIX + of + what for of in ("", OF_APACHE) for what in (CPU, DELAY, MEMORY))

TOPIC, PARTITIONS = "data.vehicle", 10
RECORDS = 1_000_000
RATE, RATE_S = 1000, 30
WARM_S = 60.0
WAIT_S = 300.0
END_S = 30.0
TASKS = 2
"""Tasks of MirrorMaker 2 and streams of ours, on a machine of two cores."""

ALONE = {"offsets.topic.replication.factor": "1", "group.initial.rebalance.delay.ms": "0"}


@dataclass(frozen=True, slots=True)
class BrokerPair:
    """Bootstrap addresses; those of the listeners for mirrors are empty where there are none."""

    source: str
    target: str
    mirror_source: str = ""
    mirror_target: str = ""


Start = Callable[[Path, BrokerPair], "subprocess.Popen[bytes]"]


@dataclass(frozen=True, slots=True)
class MirroringSide:
    """One mirror, started and stopped by the bench. `topic` is what it calls ours at the target."""

    title: str
    topic: str
    start: Start


def _start_ours(folder: Path, pair: BrokerPair) -> subprocess.Popen[bytes]:
    folder.mkdir()
    chosen = {
        "site.data_dir": str(folder),
        # With mirror listeners at both, so that digests cost it nothing.
        "mirror.source_bootstrap_servers": pair.mirror_source or pair.source,
        "mirror.target_bootstrap_servers": pair.mirror_target or pair.target,
        "mirror.target_api": "mirror_append" if pair.mirror_target else "produce",
        "mirror.metrics_port": "-1", "mirror.streams": str(TASKS),
    }  # fmt: skip
    words = [word for key, value in chosen.items() for word in ("--set", f"{key}={value}")]
    with (folder / "mirror.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "deploy", *words, "run", "mirror"],
            cwd=PROJECT_ROOT, stdout=log, stderr=log,
        )  # fmt: skip


def _start_mirror_maker(folder: Path, pair: BrokerPair) -> subprocess.Popen[bytes]:
    server = start_mirror_maker(
        folder, pair.source, pair.target, TOPIC, compression="zstd", tasks=TASKS
    )
    return server.process


OURS = MirroringSide("our mirror", TOPIC, _start_ours)
MIRROR_MAKER = MirroringSide("MirrorMaker 2", f"{ALIAS}.{TOPIC}", _start_mirror_maker)


def chosen(only: str) -> list[str]:
    """`cpu,delay` as names of figures."""
    wanted = [PREFIX + part.strip() for part in only.split(",") if part.strip()]
    if unknown := [name for name in wanted if name not in NAMES]:
        raise OperatorError(f"there is no figure {unknown[0]}; known: {', '.join(NAMES)}")
    return wanted or list(NAMES)


def measure(names: Sequence[str], repeat: int, say: Say) -> Iterator[Samples]:
    """One side after the other, `repeat` times each."""
    recorder = SampleRecorder(names, repeat, say)
    for _ in range(repeat):
        for of, open_pair in PAIRS.items():
            wanted = [what for what in (CPU, DELAY, MEMORY) if PREFIX + of + what in names]
            for side in (OURS, MIRROR_MAKER) if wanted else ():
                found = attempt(side.title, partial(_run, side, open_pair, wanted), say) or {}
                for what, value in found.items():
                    name, is_kafka = PREFIX + of + what, side is MIRROR_MAKER
                    recorder.add(name, value, of=side.title, is_kafka=is_kafka)
        yield from recorder.samples()


def _run(side: MirroringSide, open_pair: OpenPair, wanted: Sequence[str]) -> dict[str, float]:
    """The figures of one side, on a pair of brokers of its own."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="bench-mirror-") as name, open_pair(Path(name)) as pair:
        with SyncClient(pair.source, "bench") as client:
            commands.create_topic(client, TOPIC, partitions=PARTITIONS)
        mirror = side.start(Path(name) / "mirror", pair)
        try:
            _load("warm", pair, side.topic, 100, int(WARM_S))
            before = _cpu_s(mirror)
            _load("backlog", pair, side.topic, RECORDS, 0)
            found[CPU] = RECORDS / max(_cpu_s(mirror) - before, 0.01)
            if DELAY in wanted:
                found[DELAY] = _load("rate", pair, side.topic, RATE, RATE_S)["p99_ms"]
            found[MEMORY] = psutil.Process(mirror.pid).memory_info().rss / 1e6
        finally:
            _end(mirror)
    return {what: value for what, value in found.items() if what in wanted}


@contextmanager
def _pair_of_ours(folder: Path) -> Iterator[BrokerPair]:
    source = start_cluster(
        folder / "a", brokers=1, mirror_listener=True, properties={**ALONE, "site.number": "1"}
    )
    try:
        target = start_cluster(
            folder / "b", brokers=1, mirror_listener=True,
            properties={**ALONE, "site.number": "2"},
        )  # fmt: skip
        try:
            yield BrokerPair(
                source.bootstrap, target.bootstrap, source.mirror_bootstrap, target.mirror_bootstrap
            )
        finally:
            target.terminate(1)
    finally:
        source.terminate(1)


@contextmanager
def _pair_of_apache(folder: Path) -> Iterator[BrokerPair]:
    """Each with a heap of 1 GB, as Kafka's own start script gives it."""
    with start_kafka(folder / "a") as source, start_kafka(folder / "b") as target:
        yield BrokerPair(source.address, target.address)


OpenPair = Callable[[Path], AbstractContextManager[BrokerPair]]
PAIRS: dict[str, OpenPair] = {"": _pair_of_ours, OF_APACHE: _pair_of_apache}


def _load(what: str, pair: BrokerPair, topic: str, count: int, seconds: int) -> dict[str, float]:
    """The one client program, in a process of its own."""
    words = [what, pair.source, pair.target, TOPIC, topic, str(count), str(seconds)]
    done = subprocess.run(
        [sys.executable, "-m", "deploy.bench.mirror.mirror_load", *words], cwd=PROJECT_ROOT,
        capture_output=True, text=True, timeout=WAIT_S + 2 * seconds, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise OperatorError(f"{what}: {done.stderr[-300:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _cpu_s(process: subprocess.Popen[bytes]) -> float:
    times = psutil.Process(process.pid).cpu_times()
    return float(times.user + times.system)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    begin = time.monotonic()
    while process.poll() is None and time.monotonic() - begin < END_S:
        time.sleep(0.1)
    process.kill()
    process.wait()

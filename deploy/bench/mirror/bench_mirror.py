"""The two mirrors that are measured beside each other, and the pairs of brokers between which.

In: folders. Out: running processes, addresses. Never: a pair that two mirrors have shared.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType

from bus.client.admin import commands
from bus.client.wire.sync_client import SyncClient
from deploy.bench.program import answer_of_program
from deploy.paths import PROJECT_ROOT
from deploy.servers.databus_cluster import RunningCluster, start_cluster
from deploy.servers.kafka import start_kafka
from deploy.servers.mirror_maker import ALIAS, start_mirror_maker

TOPIC, PARTITIONS = "data.vehicle", 10
TASKS = 2
"""Tasks of MirrorMaker 2 and streams of ours, on a machine of two cores."""
WAIT_S = 300.0
END_S = 30.0
ALONE = {"offsets.topic.replication.factor": "1", "group.initial.rebalance.delay.ms": "0"}
NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class BrokerPair:
    """Bootstrap addresses; those of the listeners for mirrors are empty where there are none.
    `clusters`: ours, source first."""

    source: str
    target: str
    mirror_source: str = ""
    mirror_target: str = ""
    clusters: tuple[RunningCluster, ...] = field(default=())


Start = Callable[[Path, BrokerPair, Mapping[str, str]], "subprocess.Popen[bytes]"]


@dataclass(frozen=True, slots=True)
class BenchMirror:
    """One mirror, started and stopped by the bench. `topic` is what it calls ours at the target;
    settings of `[mirror]` are for ours alone."""

    title: str
    topic: str
    start: Start


def command_of(folder: Path, pair: BrokerPair, settings: Mapping[str, str] = NONE) -> list[str]:
    """The words of `databus` with the settings of our mirror between this pair."""
    chosen = {
        "site.data_dir": str(folder),
        # With mirror listeners at both, so that digests cost it nothing.
        "mirror.source_bootstrap_servers": pair.mirror_source or pair.source,
        "mirror.target_bootstrap_servers": pair.mirror_target or pair.target,
        "mirror.target_api": "mirror_append" if pair.mirror_target else "produce",
        "mirror.metrics_port": "-1", "mirror.streams": str(TASKS),
        **{f"mirror.{name}": value for name, value in settings.items()},
    }  # fmt: skip
    words = [word for key, value in chosen.items() for word in ("--set", f"{key}={value}")]
    return [sys.executable, "-m", "deploy", *words]


def _start_ours(
    folder: Path, pair: BrokerPair, settings: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    folder.mkdir()
    with (folder / "mirror.log").open("wb") as log:
        return subprocess.Popen(
            [*command_of(folder, pair, settings), "run", "mirror"],
            cwd=PROJECT_ROOT, stdout=log, stderr=log,
        )  # fmt: skip


def _start_mirror_maker(
    folder: Path,
    pair: BrokerPair,
    settings: Mapping[str, str],
    *,
    in_transactions: bool = False,
) -> subprocess.Popen[bytes]:
    server = start_mirror_maker(
        folder, pair.source, pair.target, TOPIC, compression="zstd", tasks=TASKS,
        in_transactions=in_transactions,
    )  # fmt: skip
    return server.process


OURS = BenchMirror("our mirror", TOPIC, _start_ours)
AT_LEAST_ONCE = BenchMirror(
    "our mirror without transactions", TOPIC,
    lambda folder, pair, _: _start_ours(folder, pair, {"target_transactions": "false"}),
)  # fmt: skip
MIRROR_MAKER = BenchMirror("MirrorMaker 2", f"{ALIAS}.{TOPIC}", _start_mirror_maker)
MIRROR_MAKER_IN_TRANSACTIONS = BenchMirror(
    "MirrorMaker 2 in transactions", MIRROR_MAKER.topic,
    partial(_start_mirror_maker, in_transactions=True),
)  # fmt: skip


@contextmanager
def pair_of_ours(
    folder: Path, host: str = "127.0.0.1", prefix: Sequence[str] = ()
) -> Iterator[BrokerPair]:
    """`host` and `prefix`: where the source runs."""
    source = start_cluster(
        folder / "a", brokers=1, mirror_listener=True, properties={**ALONE, "site.number": "1"},
        hosts=[host], prefixes=[prefix],
    )  # fmt: skip
    try:
        target = start_cluster(
            folder / "b", brokers=1, mirror_listener=True,
            properties={**ALONE, "site.number": "2"},
        )  # fmt: skip
        try:
            yield BrokerPair(
                source.bootstrap, target.bootstrap, source.mirror_bootstrap,
                target.mirror_bootstrap, (source, target),
            )  # fmt: skip
        finally:
            target.stop()
    finally:
        source.stop()


@contextmanager
def pair_of_apache(folder: Path) -> Iterator[BrokerPair]:
    """Each with a heap of 1 GB, as Kafka's own start script gives it."""
    with start_kafka(folder / "a") as source, start_kafka(folder / "b") as target:
        yield BrokerPair(source.address, target.address)


@dataclass(frozen=True, slots=True)
class MirroringRun:
    """A mirror that copies, warm. `folder`: of its own."""

    bench_mirror: BenchMirror
    pair: BrokerPair
    folder: Path
    process: subprocess.Popen[bytes]


OpenPair = Callable[[Path], AbstractContextManager[BrokerPair]]


@contextmanager
def mirroring(
    bench_mirror: BenchMirror,
    open_pair: OpenPair,
    *,
    warm_s: int,
    settings: Mapping[str, str] = NONE,
    partitions: int = PARTITIONS,
    busy: int = PARTITIONS,
) -> Iterator[MirroringRun]:
    """On a pair of brokers of its own, whose topic has so many partitions; it has copied a hundred
    records a second for `warm_s`, into the first `busy` of them."""
    with tempfile.TemporaryDirectory(prefix="bench-mirror-") as name, open_pair(Path(name)) as pair:
        with SyncClient(pair.source, "bench") as client:
            commands.create_topic(client, TOPIC, partitions=partitions)
        folder = Path(name) / "mirror"
        process = bench_mirror.start(folder, pair, settings)
        try:
            load("warm", pair, bench_mirror.topic, 100, warm_s, busy)
            yield MirroringRun(bench_mirror, pair, folder, process)
        finally:
            end(process)


def load(
    what: str, pair: BrokerPair, topic: str, count: int, seconds: int, *more: int
) -> dict[str, float]:
    """The one client program, in a process of its own, to its end."""
    command = load_command(what, pair, topic, count, seconds, *more)
    return answer_of_program(command, what, WAIT_S + 2 * seconds)


def load_command(
    what: str, pair: BrokerPair, topic: str, count: int, seconds: int, *more: int
) -> list[str]:
    """Its words; see `mirror_load`."""
    words = [what, pair.source, pair.target, TOPIC, topic, *map(str, (count, seconds, *more))]
    return [sys.executable, "-m", "deploy.bench.mirror.mirror_load", *words]


def end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, and SIGKILL for one that does not end."""
    process.terminate()
    begin = time.monotonic()
    while process.poll() is None and time.monotonic() - begin < END_S:
        time.sleep(0.1)
    process.kill()
    process.wait()

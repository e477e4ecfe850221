"""Two sites for the tests of the mirror: a source, our broker as target, the role as a process.

In: folders. Out: raw batches of both sides, the mirror's own status. Never: a mirror inside the
test's process; what is killed is what `databus run mirror` starts.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bus.client.admin import queries
from bus.client.admin.queries import raise_for_error
from bus.client.wire.sync_client import SyncClient
from bus.contracts.mirror_status import MirrorStatus
from bus.errors import BusError, ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.fetch import FetchPartition, FetchRequest, FetchTopic
from bus.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from bus.protocol.generated.metadata import MetadataRequest
from bus.records.batch import iter_batches
from deploy.paths import PROJECT_ROOT
from deploy.servers.databus_cluster import ZOOKEEPER, RunningCluster, start_cluster
from deploy.servers.process import JavaServer
from dr_mirror.status.status_file import StatusUnavailable, read_status

WAIT_S = 60.0
POLL_S = 0.05

ALONE = {"offsets.topic.replication.factor": "1", "group.initial.rebalance.delay.ms": "0"}
"""A cluster of one broker keeps groups' offsets on it."""
SOURCE_PROPERTIES = {**ALONE, "site.number": "1"}

Batch = tuple[int, int, bytes]
"""Base offset, end offset, the bytes without the partition leader epoch."""


def zookeeper_of(controller: str, request: pytest.FixtureRequest, dice: random.Random) -> str:
    """A part of an ensemble that nobody else uses; empty under KRaft, which starts none."""
    if controller != ZOOKEEPER:
        return ""
    server: JavaServer = request.getfixturevalue("zookeeper")
    return f"{server.address}/{dice.randrange(1 << 40)}"


def wait_until(holds: Callable[[], object], what: str, timeout_s: float = WAIT_S) -> None:
    """Poll; the bus may be away meanwhile."""
    deadline = time.monotonic() + timeout_s
    last: object = None
    while time.monotonic() < deadline:
        try:
            last = holds()
            if last:
                return
        except (BusError, StatusUnavailable) as error:
            last = error
        time.sleep(POLL_S)
    raise AssertionError(f"{what}: not within {timeout_s:g} s, last {last!r}")


@dataclass
class MirrorProcess:
    """`databus run mirror` on a folder of its own; `prefix`: words before its command."""

    folder: Path
    source: str
    target: str
    settings: dict[str, str] = field(default_factory=dict)
    prefix: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    started_ms: int = 0  # 0: it does not run, what it left behind is its newest status

    @property
    def words(self) -> list[str]:
        """The command line up to its command."""
        chosen = {
            "site.data_dir": str(self.folder),
            "mirror.source_bootstrap_servers": self.source,
            "mirror.target_bootstrap_servers": self.target,
            "mirror.metrics_port": "-1",
            "mirror.topic_refresh_s": "0.5",
            **self.settings,
        }
        sets = [word for key, value in chosen.items() for word in ("--set", f"{key}={value}")]
        return [sys.executable, "-m", "deploy", *sets]

    @property
    def log(self) -> Path:
        """What it wrote to stderr, over all its lives."""
        return self.folder / "mirror.log"

    def start(self) -> MirrorProcess:
        """Begin; it may not copy yet when this returns."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.started_ms = int(time.time() * 1000)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.prefix, *self.words, "run", "mirror"], cwd=PROJECT_ROOT, stderr=log, stdout=log
            )
        return self

    def kill(self) -> None:
        """SIGKILL."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.started_ms = 0

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        assert self.process is not None
        self.process.terminate()
        self.started_ms = 0
        return self.process.wait(30)

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`databus mirror …` with the same settings."""
        return subprocess.run(
            [*self.words, "mirror", *words], cwd=PROJECT_ROOT, capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip

    def status(self) -> MirrorStatus:
        """Its newest. Raises StatusUnavailable: what is there was written by a process before this one."""
        found = read_status(self.folder / "mirror" / "status.json")
        if found.at_ms < self.started_ms:
            raise StatusUnavailable(f"it has written nothing since it was started: {found}")
        return found

    def state_of(self, topic: str) -> str:
        """The state of the topic's first partition, or of the topic."""
        found = self.status()
        states = [one.state for one in found.partitions if one.topic == topic]
        return (states or [one.state for one in found.topics if one.topic == topic] or [""])[0]


class SiteReader:
    """One cluster read by plain requests: no code of the mirror is in it."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def ends(self, topic: str, partition: int) -> tuple[int, int]:
        """Log start and high watermark."""
        with SyncClient(self._bootstrap, "two-sites") as client:
            return (
                self._offset(client, topic, partition, -2),
                self._offset(client, topic, partition, -1),
            )

    def batches(self, topic: str, partition: int) -> list[Batch]:
        """Everything below the high watermark."""
        found: list[Batch] = []
        with SyncClient(self._bootstrap, "two-sites") as client:
            leader, topic_id = self._leader(client, topic, partition)
            at, end = (self._offset(client, topic, partition, when) for when in (-2, -1))
            while at < end:
                asked = FetchPartition(partition, -1, at, partition_max_bytes=4 << 20)
                request = FetchRequest(topics=[FetchTopic(topic, topic_id, [asked])], session_epoch=-1)
                answer = client.request_node(leader, ApiKey.FETCH, request)
                data = answer.responses[0].partitions[0]
                raise_for_error(data.error_code, topic)
                view = memoryview(data.records or b"")
                for position, header in iter_batches(view):
                    if header.base_offset >= at:
                        raw = bytes(view[position : position + header.size_bytes])
                        found.append((header.base_offset, header.end_offset, raw[:12] + raw[16:]))
                if not found or found[-1][1] <= at:
                    break
                at = found[-1][1]
        return found

    def _leader(self, client: SyncClient, topic: str, partition: int) -> tuple[int, bytes]:
        answer = client.request(ApiKey.METADATA, MetadataRequest(topics=None))
        for one in answer.topics:
            if one.name == topic:
                leaders = {each.partition_index: each.leader_id for each in one.partitions}
                if partition in leaders:
                    return leaders[partition], one.topic_id
        raise BusError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic)

    def _offset(self, client: SyncClient, topic: str, partition: int, when: int) -> int:
        leader, _ = self._leader(client, topic, partition)
        asked = ListOffsetsTopic(topic, [ListOffsetsPartition(partition, -1, when)])
        answer = client.request_node(leader, ApiKey.LIST_OFFSETS, ListOffsetsRequest(-1, 0, [asked]))
        result = answer.topics[0].partitions[0]
        raise_for_error(result.error_code, topic)
        return int(result.offset)


@dataclass
class TwoSites:
    """Site A, site B and the mirror between them."""

    source: SiteReader
    target: SiteReader
    mirror: MirrorProcess

    def is_copied(self, topic: str, partitions: int) -> bool:
        """Whether B ends where A ends."""
        return all(
            self.source.ends(topic, each)[1] == self.target.ends(topic, each)[1]
            for each in range(partitions)
        )

    def wait_until_copied(self, topic: str, partitions: int, timeout_s: float = WAIT_S) -> None:
        """B holds all that A holds."""
        try:
            wait_until(lambda: self.is_copied(topic, partitions), f"{topic} is copied", timeout_s)
        except AssertionError as error:
            tail = self.mirror.log.read_text("utf-8", "replace")[-3000:]
            raise AssertionError(f"{error}\n{self.mirror.status()}\n{tail}") from None

    def wait_until_some(self, topic: str) -> None:
        """B holds some of its first partition."""
        wait_until(lambda: self.target.ends(topic, 0)[1] > 0, f"{topic} begins to be copied")

    def assert_equal(self, topic: str, partitions: int) -> int:
        """Every batch of both sides, byte for byte; how many there are."""
        count = 0
        for each in range(partitions):
            theirs, ours = self.source.batches(topic, each), self.target.batches(topic, each)
            assert [one[:2] for one in ours] == [one[:2] for one in theirs]
            assert ours == theirs, f"{topic}-{each}"
            assert self.source.ends(topic, each) == self.target.ends(topic, each)
            count += len(ours)
        return count


def wait_until_in_sync(cluster: RunningCluster, topic: str) -> None:
    """No replica of a topic is missing: the next broker may be killed without loss."""

    def in_sync() -> bool:
        with SyncClient(cluster.bootstrap, "two-sites") as client:
            [found] = queries.topics(client, [topic])
        return not any(each.under_replicated for each in found.partitions)

    wait_until(in_sync, f"{topic} is in sync")


def start_pair_of_brokers(folder: Path, site: int) -> RunningCluster:
    """Two brokers, so that leaders move, and a controller that stays."""
    properties = {
        "site.number": str(site), "default.replication.factor": "2", "min.insync.replicas": "1",
        "offsets.topic.replication.factor": "2", "group.initial.rebalance.delay.ms": "0",
    }  # fmt: skip
    return start_cluster(
        folder, brokers=2, separate_controllers=1, mirror_listener=True, properties=properties
    )


def start_target(folder: Path, **properties: str) -> RunningCluster:
    """Site B: one broker of ours with a listener for the mirror."""
    given = {name.replace("_", "."): value for name, value in properties.items()}
    return start_site(folder, 2, **given)


def start_site(folder: Path, number: int, zookeeper: str = "", **properties: str) -> RunningCluster:
    """One broker that a mirror may write to, so that it can be either side of a switch."""
    given = {**ALONE, "site.number": str(number), **properties}
    if zookeeper:
        return start_cluster(
            folder, 1, ZOOKEEPER, given, zookeeper_connect=zookeeper, mirror_listener=True
        )
    return start_cluster(folder, brokers=1, mirror_listener=True, properties=given)


@contextmanager
def mirrored(folder: Path, source: str, target: RunningCluster, **settings: str) -> Iterator[TwoSites]:
    """A mirror that runs from `source` to `target`."""
    chosen = {f"mirror.{name}": value for name, value in settings.items()}
    process = MirrorProcess(folder, source, target.mirror_bootstrap, chosen).start()
    try:
        yield TwoSites(SiteReader(source), SiteReader(target.bootstrap), process)
    finally:
        process.kill()



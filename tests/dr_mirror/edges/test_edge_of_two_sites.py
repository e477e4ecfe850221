"""An edge with a second site: everything that it acknowledged to a camera is there after a switch.

Real processes: two brokers, the mirror, the edge; kill -9 of each. The switch is done by hand:
topics at the second site are freed, as an operator does.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
import msgspec
import pytest

from bus.client.admin import commands
from bus.client.admin.config_resources import TOPIC, AlterConfigOp
from bus.client.kafka.admin import Admin
from bus.client.model import ConsumedRecord
from bus.client.wire.sync_client import SyncClient
from bus.contracts.meters import Arrived
from bus.contracts.mirror_status import MirrorStatus
from bus.contracts.topics import CONTROL_MIRROR_CONFIRMED, DATA_VEHICLE, METER_ARRIVED, TOPICS
from bus.settings import BusSettings
from deploy.paths import PROJECT_ROOT
from deploy.servers.databus_cluster import RunningCluster, start_cluster
from deploy.servers.process import free_port
from ingest.normalise import Envelope, normalise
from ingest.store.open import open_store
from ingest.store.port import Position, RecordRow, StoreBatch
from tests.dr_mirror.two_sites import (
    SOURCE_PROPERTIES,
    TwoSites,
    mirrored,
    start_target,
    wait_until,
)
from tests.ingest.edge.test_process import RecordPoster, check, on_topic

MIRRORED = (
    "data.vehicle",
    "data.face",
    "data.video",
    "meter.sent",
    "meter.arrived",
    "quarantine.records",
)
SENDERS = 4


class EdgeOfTwoSites:
    """`databus run edge` on a folder of its own."""

    def __init__(
        self, folder: Path, home: str, mirror: Mapping[str, str] = MappingProxyType({}), **settings: str
    ) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        chosen = {
            "site.data_dir": str(folder), "bus.bootstrap_servers": home, "edge.port": str(port),
            "edge.spool_min_free_bytes": "0", "edge.spool_segment_bytes": "20000",
            "edge.move_after_s": "1",
            **{f"edge.{name}": value for name, value in settings.items()}, **mirror,
        }  # fmt: skip
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        sets = [word for key, value in chosen.items() for word in ("--set", f"{key}={value}")]
        self._words = [sys.executable, "-m", "deploy", *sets]
        self.start()

    def start(self) -> None:
        with (self._folder / "edge.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*self._words, "run", "edge"], cwd=PROJECT_ROOT, stdout=log, stderr=log
            )
        wait_until(self._answers, "the edge answers")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def command(self, *words: str) -> str:
        done = subprocess.run(
            [*self._words, *words],
            cwd=PROJECT_ROOT,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = httpx.get(f"{self.url}/v1/status").json()
        return {**found, **found.get("second_site", {})}

    def log(self) -> str:
        return (self._folder / "edge.log").read_text("utf-8", "replace")[-4000:]

    def wait_until(self, **wanted: object) -> None:
        def holds() -> bool:
            status = self.status()
            return all(status[name] == value for name, value in wanted.items())

        try:
            wait_until(holds, f"{wanted}")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.status()}\n{self.log()}") from None

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/healthz").status_code == 200
        except httpx.TransportError:
            return False


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[tuple[RunningCluster, RunningCluster]]:
    home = start_cluster(tmp_path / "a", brokers=1, properties=SOURCE_PROPERTIES)
    second = start_target(tmp_path / "b")
    for each in (home, second):  # as `up` does at both; what is mirrored is made by the mirror
        mine = [topic for name, topic in TOPICS.items() if each is home or name not in MIRRORED]
        admin = Admin(BusSettings(bootstrap_servers=each.bootstrap), client_id="test")
        admin.ensure_topics(mine)
        admin.close()
    yield home, second
    for each in (home, second):
        each.kill(1)


@pytest.fixture
def sites(tmp_path: Path, clusters: tuple[RunningCluster, RunningCluster]) -> Iterator[TwoSites]:
    with mirrored(tmp_path / "mirror", clusters[0].bootstrap, clusters[1]) as both:
        # An edge of B would make what it sends there, and then it were no copy.
        wait_until(
            lambda: both.mirror.state_of(DATA_VEHICLE) == "copying", "the mirror has made its topics"
        )
        yield both


def take_over(second: RunningCluster) -> None:
    """Free every mirrored topic: what a forced switch does at the second site."""
    change = [("mirror.source.cluster.id", AlterConfigOp.DELETE, None)]
    with SyncClient(second.bootstrap, "test") as client:
        commands.alter_configs(client, {(TOPIC, name): change for name in MIRRORED})


def start_senders(edge: EdgeOfTwoSites, letter: str = "A") -> list[RecordPoster]:
    senders = [RecordPoster(edge.url, f"浙{letter}0000{number}") for number in range(SENDERS)]
    for sender in senders:
        sender.start()
    return senders


def wait_for_more(senders: list[RecordPoster], records: int = 100) -> None:
    before = sum(len(one.acknowledged) for one in senders)
    wait_until(lambda: sum(len(one.acknowledged) for one in senders) > before + records, "records")


def wait_until_some(sites: TwoSites) -> None:
    """The second site has some records, of whatever partition."""
    partitions = range(TOPICS[DATA_VEHICLE].partitions)
    wait_until(
        lambda: any(sites.target.ends(DATA_VEHICLE, each)[1] for each in partitions),
        "some are copied",
    )


def stop(senders: list[RecordPoster]) -> None:
    for sender in senders:
        sender.stop.set()
    for sender in senders:
        sender.join(30)


def arrived(cluster: RunningCluster) -> int:
    """What edges say there that they took, over all epochs and slots."""
    newest: dict[tuple[object, ...], int] = {}
    for one in on_topic(cluster.bootstrap, METER_ARRIVED):
        said = msgspec.json.decode(one.value or b"", type=Arrived)
        slot = said.edge, said.epoch, said.kind, said.camera_ip, said.recognizer_ip, said.minute_ms
        newest[slot] = max(newest.get(slot, 0), said.arrived)
    return sum(newest.values())


def ids(found: list[ConsumedRecord]) -> Counter[str]:
    return Counter(str(one.header("record-id"), "ascii") for one in found)


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.rotates("an edge of two sites")
def test_an_ordered_move_sends_exactly_what_the_second_site_lacks_before_what_is_new(
    clusters: tuple[RunningCluster, RunningCluster], sites: TwoSites, tmp_path: Path
):
    """The mirror is cut, A dies, and B's edge says what B has: nothing is lost, and nothing comes twice."""
    home, second = clusters
    at_second = EdgeOfTwoSites(tmp_path / "edge-b", second.bootstrap)
    edge = EdgeOfTwoSites(
        tmp_path / "edge-a", home.bootstrap, second_site_url=at_second.url, move_after_s="0",
        second_site_bootstrap_servers=second.bootstrap,
    )  # fmt: skip
    try:
        senders = start_senders(edge)
        wait_for_more(senders)
        wait_until_some(sites)
        wait_until(lambda: len(edge.status()["cluster_ids"]) == 2, "the edge knows both sites")
        stop(senders)
        edge.wait_until(backlog=0, kept_records=0)
        more = start_senders(edge, "B")
        wait_for_more(more)
        sites.mirror.kill()
        wait_for_more(more)
        home.kill(1)
        wait_for_more(more)
        assert edge.status()["kept_records"] > 0
        edge.command("edge", "move", "--to", "second", "--wait", "0")
        wait_until(lambda: "second has said what it holds" in edge.log(), "the edge has asked")
        take_over(second)
        stop(more)
        edge.wait_until(active="second", moving_to="", backlog=0, uncovered_records=0)
        found = on_topic(second.bootstrap, DATA_VEHICLE)
        check([*senders, *more], found)
        assert set(ids(found).values()) == {1}
        status = edge.status()
        assert 0 < status["resent_records"] < len(found)
        edge.process.terminate()
        edge.process.wait(30)
        assert arrived(second) == status["arrived"]["vehicle"] == len(found)
    finally:
        edge.kill()
        at_second.kill()


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.rotates("an edge of two sites")
def test_what_a_camera_was_told_is_kept_over_kills_of_edge_mirror_and_site_and_is_stored_once(
    clusters: tuple[RunningCluster, RunningCluster],
    sites: TwoSites,
    tmp_path: Path,
    dice: random.Random,
):
    """The edge follows the switch by itself; it is killed before it and in the middle."""
    home, second = clusters
    edge = EdgeOfTwoSites(
        tmp_path / "edge", home.bootstrap, second_site_bootstrap_servers=second.bootstrap
    )
    try:
        senders = start_senders(edge)
        wait_for_more(senders)
        wait_until_some(sites)
        # What an edge cannot know before: which cluster its site is, and that B is its mirror.
        wait_until(lambda: len(edge.status()["cluster_ids"]) == 2, "the edge knows both sites")
        wait_until(
            lambda: on_topic(second.bootstrap, CONTROL_MIRROR_CONFIRMED), "the mirror has confirmed"
        )
        sites.mirror.kill()
        wait_for_more(senders)
        time.sleep(dice.random() * 0.3)  # the moment of the kill is what is drawn
        edge.kill()
        edge.start()
        wait_for_more(senders)
        home.kill(1)
        wait_for_more(senders)
        take_over(second)
        wait_until(lambda: edge.status()["moving_to"] or edge.status()["moves"], "the edge moves")
        edge.kill()
        edge.start()
        edge.wait_until(active="second", moving_to="")
        wait_for_more(senders)
        stop(senders)
        edge.wait_until(active="second", backlog=0)
        found = on_topic(second.bootstrap, DATA_VEHICLE)
        check(senders, found)
        assert_stored_once(found, tmp_path)
    finally:
        edge.kill()


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.rotates("an edge of two sites")
def test_a_forced_switch_is_missing_nothing_once_the_edge_has_said_what_it_sent_again(
    clusters: tuple[RunningCluster, RunningCluster], tmp_path: Path
):
    """The link is too slow, A dies, B takes over by force, the edge moves by itself and is asked."""
    home, second = clusters
    edge = EdgeOfTwoSites(
        tmp_path / "edge", home.bootstrap, second_site_bootstrap_servers=second.bootstrap
    )
    narrow = {"link_bytes_per_s": "20000", "fetch_bytes": "8000", "append_bytes": "8000",
              "partition_fetch_bytes": "4000"}  # fmt: skip
    edges = f'["{edge.url}"]'
    with mirrored(tmp_path / "mirror", home.bootstrap, second, edge_urls=edges, **narrow) as sites:
        mirror = sites.mirror
        try:
            wait_until(lambda: len(mirror.status().partitions) > 0, "the mirror copies")
            wait_until(lambda: len(edge.status()["cluster_ids"]) == 2, "the edge knows both sites")
            senders = start_senders(edge)
            wait_until(lambda: kept_by_edges(mirror.status()) > 100, "the mirror is far behind")
            assert mirror.status().rpo_through_edges_s == 0 < mirror.status().rpo_s
            assert edge.url in mirror.command("status").stdout
            stop(senders)
            edge.wait_until(backlog=0)
            home.kill(1)
            done = mirror.command("switch", "--to", "B", "--force", "--json")
            assert done.returncode == 0, done.stdout + done.stderr
            edge.wait_until(active="second", moving_to="", backlog=0)
            wait_until(lambda: "has sent" in mirror.log.read_text("utf-8"), "the mirror has asked")
            told = json.loads(mirror.command("report", "--json").stdout)
            assert told["edges_not_heard"] == []
            missing = told["missing"]
            assert missing["known_missing"] > 100, "the link was too slow"
            assert missing["sent_again"] > 0
            # Counts of arrivals are told anew from the beginning, as other records.
            of_counts = [
                one["known_missing"]
                for said in told["statements"] if said["kind"] == "forced"
                for one in said["partitions"] if one["topic"] == METER_ARRIVED
            ]  # fmt: skip
            assert missing["missing"] == sum(of_counts)
            assert missing["perhaps_there"] == 0
            found = on_topic(second.bootstrap, DATA_VEHICLE)
            check(senders, found)
            again = json.loads(mirror.command("report", "--json").stdout)
            assert again == told, "an edge is asked once"
        finally:
            edge.kill()


def kept_by_edges(status: MirrorStatus) -> int:
    return sum(one.kept_records for one in status.edges)


def assert_stored_once(found: list[ConsumedRecord], folder: Path) -> None:
    """What ingest makes of it: records that came twice are counted duplicates, not rows."""
    store = open_store(f"sqlite://{folder}/records.db", "write")
    try:
        counted = ids(found)
        ends: Counter[int] = Counter()
        for at in range(0, len(found), 500):
            batch = found[at : at + 500]
            rows = [row_of(one) for one in batch]
            before = dict(ends)
            for one in batch:
                ends[one.partition] = max(ends[one.partition], one.offset + 1)
            positions = [
                Position(
                    application="ingest", cluster_id="b", topic=DATA_VEHICLE, topic_id="t",
                    partition=partition, end_offset=end, start_offset=before.get(partition, 0),
                )
                for partition, end in ends.items() if end != before.get(partition, 0)
            ]  # fmt: skip
            store.apply(StoreBatch(rows=rows), positions)
        counts = store.counts()
        assert counts.stored == {"vehicle": len(counted)}
        assert counts.duplicates.get("vehicle", 0) == counted.total() - len(counted)
    finally:
        store.close()


def row_of(one: ConsumedRecord) -> RecordRow:
    envelope = Envelope(
        received_at_ms=int(one.header("received-at") or 0),
        record_id=str(one.header("record-id"), "ascii"), topic=one.topic, partition=one.partition,
        offset=one.offset,
    )  # fmt: skip
    row = normalise(one.value, "vehicle", envelope, None, "Asia/Shanghai")
    assert isinstance(row, RecordRow)
    return row

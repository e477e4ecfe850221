"""`databus mirror switch` between two real clusters of ours."""

from __future__ import annotations

import json
import random
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from bus.client.admin import commands, queries
from bus.client.admin.cluster_admin import ClusterAdmin
from bus.client.model import OffsetAndMetadata
from bus.client.model import TopicPartition as BusPartition
from bus.client.wire.offset_requests import commit_of_group
from bus.client.wire.sync_client import SyncClient
from bus.contracts.diverged_ranges import DivergedRange, decode_diverged_range
from bus.contracts.topics import CONTROL_MIRROR_TAILS
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.records.build import build_batch
from bus.records.read import read_records
from bus.records.record import Record
from bus.settings import BusSettings
from deploy.paths import PROJECT_ROOT
from deploy.servers.databus_cluster import KRAFT, ZOOKEEPER, RunningCluster
from tests.broker.mirror.client import leader_of, mirror
from tests.dr_mirror.copy.test_copying import committed, consumer, create
from tests.dr_mirror.storing_site import StoringSite
from tests.dr_mirror.two_sites import (
    MirrorProcess,
    SiteReader,
    start_site,
    wait_until,
    zookeeper_of,
)

TOPIC = "data.vehicle"
PARTITIONS = 4
PRODUCER = 5 << 48
STEPS_WITH_A_KILL = ("begun", "fenced", "drained", "groups", "opened")
ENGLISH = {
    "begun": "begun", "claimed": "every leader says", "draining": "still to come", "fenced": "the former primary takes no more", "drained": "the new primary holds",
    "groups": "groups' offsets", "opened": "the new primary takes records",
    "compared": "compared",
}  # fmt: skip


class Sites:
    """A, B, and the mirror of their settings; which way it copies is its own affair."""

    def __init__(
        self, a: RunningCluster, b: RunningCluster, folder: Path, settings: dict[str, str]
    ) -> None:
        self.clusters = {"A": a, "B": b}
        self.readers = {name: SiteReader(one.bootstrap) for name, one in self.clusters.items()}
        self.mirror = MirrorProcess(
            folder, a.mirror_bootstrap, b.mirror_bootstrap, {"site.language": "en", **settings}
        ).start()

    def switch(self, to: str, *words: str) -> subprocess.CompletedProcess[str]:
        chosen = ["--to", to] if to else []
        return self.mirror.command("switch", *chosen, *words)

    def switch_killed_after(self, to: str, step: str, *words: str) -> None:
        """SIGKILL as soon as the command has said that this step is done."""
        chosen = ["--to", to] if to else []
        command = [*self.mirror.words, "mirror", "switch", *chosen, *words]
        process = subprocess.Popen(command, cwd=PROJECT_ROOT, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(ENGLISH[step]):
                break
        process.kill()
        process.wait()

    def switch_after_step(self, to: str, step: str, act: Callable[[], None]) -> str:
        """All that the command says; `act` is called once it has said that this step is done."""
        command = [*self.mirror.words, "mirror", "switch", "--to", to]
        process = subprocess.Popen(
            command, cwd=PROJECT_ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert process.stdout is not None
        said: list[str] = []
        for line in process.stdout:
            if line.startswith(ENGLISH[step]) and not any(one.startswith(ENGLISH[step]) for one in said):
                act()
            said.append(line)
        assert process.wait(60) == 0, said
        return "".join(said)

    def epoch_numbers(self) -> list[int]:
        found = []
        for one in self.clusters.values():
            admin = ClusterAdmin(BusSettings(bootstrap_servers=one.bootstrap), "test")
            epoch = admin.site_epoch()
            admin.close()
            found.append(0 if epoch is None else epoch.number)
        return found

    def ends(self, name: str, topic: str = TOPIC) -> list[int]:
        return [self.readers[name].ends(topic, each)[1] for each in range(PARTITIONS)]

    def wait_until_equal(self, topic: str = TOPIC) -> None:
        wait_until(lambda: self.ends("A", topic) == self.ends("B", topic), f"{topic} is copied")

    def assert_equal(self, topic: str = TOPIC) -> None:
        for each in range(PARTITIONS):
            a, b = (self.readers[name].batches(topic, each) for name in "AB")
            assert a == b

    def wait_until_copying(self, source: str) -> None:
        """It copies this way, nothing is behind, and the other site holds what `source` held when
        this was called: the mirror's own word alone may be a second old."""
        cluster_id = self.clusters[source].cluster_id
        origin = self.readers[source]
        copy = self.readers["B" if source == "A" else "A"]
        ends: dict[tuple[str, int], int] = {}

        def is_copying() -> bool:
            found = self.mirror.status()
            states = {one.state for one in found.partitions}
            if found.source_cluster_id != cluster_id or states != {"copying"} or found.rpo_s != 0:
                return False
            for one in found.partitions:
                place = one.topic, one.partition
                if place not in ends:
                    ends[place] = origin.ends(*place)[1]
            return all(copy.ends(*place)[1] >= end for place, end in ends.items())

        wait_until(is_copying, f"the mirror copies from {source}")


@contextmanager
def both_sites(folder: Path, zookeeper: str = "", **settings: str) -> Iterator[Sites]:
    a = start_site(folder / "a", 1, zookeeper and f"{zookeeper}/a")
    b = start_site(folder / "b", 2, zookeeper and f"{zookeeper}/b")
    sites = Sites(a, b, folder / "mirror", settings)
    try:
        yield sites
    finally:
        sites.mirror.kill()
        a.kill(1)
        b.kill(1)


class AcknowledgedProducer:
    """Idempotent, to one site, until stopped; what was acknowledged is counted."""

    def __init__(self, bootstrap: str, dice: random.Random) -> None:
        self.acknowledged = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._send, args=(bootstrap, random.Random(dice.random()))
        )
        self._thread.start()

    def _send(self, bootstrap: str, dice: random.Random) -> None:
        producer = Producer({
            "bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 2,
            "message.timeout.ms": 120_000,
        })  # fmt: skip
        while not self._stopping.is_set():
            if len(producer) < 1000:
                for _ in range(20):
                    producer.produce(TOPIC, dice.randbytes(50), partition=dice.randrange(PARTITIONS),
                                     on_delivery=self._on_delivery)  # fmt: skip
            producer.poll(0.01)
        producer.poll(0)
        producer.purge()
        producer.flush(10)

    def _on_delivery(self, error: object, _: object) -> None:
        self.acknowledged += error is None

    def wait_for(self, records: int) -> None:
        wanted = self.acknowledged + records
        wait_until(lambda: self.acknowledged > wanted, "records are acknowledged")

    def stop(self) -> int:
        self._stopping.set()
        self._thread.join()
        return self.acknowledged


class AcknowledgedCommits:
    """One commit after the other of a group's position at one site, until the first that a switch
    refuses."""

    def __init__(self, bootstrap: str, group: str, sender: AcknowledgedProducer) -> None:
        self.acknowledged = 0
        self.refused = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._commit, args=(bootstrap, group, sender))
        self._thread.start()

    def _commit(self, bootstrap: str, group: str, sender: AcknowledgedProducer) -> None:
        found: ErrorCode | None = None
        with SyncClient(bootstrap, "commits") as client:
            ids = {one.name: one.topic_id for one in queries.topics(client)}
            while not self._stopping.is_set():
                # never beyond the end of the partition, which has about its share
                offset = min(self.acknowledged + 1, sender.acknowledged // (2 * PARTITIONS))
                wanted = {BusPartition(TOPIC, 0): OffsetAndMetadata(offset, "")}
                request = commit_of_group(group, wanted, ids)
                answer = client.request(ApiKey.OFFSET_COMMIT, request)
                found = ErrorCode.of(answer.topics[0].partitions[0].error_code)
                if found:
                    break
                self.acknowledged = offset
        if found is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self.refused.set()

    def stop(self) -> int:
        self._stopping.set()
        self._thread.join()
        return self.acknowledged


def make_late_topic(cluster: RunningCluster) -> None:
    """With a record, at a primary that is handing over its other topics."""
    create(cluster, "data.late")
    send_one(cluster, "data.late")


def is_read_only(cluster: RunningCluster) -> bool:
    """A record sent there fails at its time-out."""
    failed: list[bool] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "message.timeout.ms": 700})
    producer.produce(
        TOPIC, b"refused", on_delivery=lambda error, _: failed.append(error is not None)
    )
    producer.flush(20)
    return failed == [True]


def commit(cluster: RunningCluster, group: str, offset: int) -> None:
    reader = consumer(cluster, group)
    reader.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
    reader.close()


def send_one(cluster: RunningCluster, topic: str = TOPIC) -> None:
    failed: list[bool] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "message.timeout.ms": 30_000})
    producer.produce(
        topic, b"after", partition=0, on_delivery=lambda error, _: failed.append(error is not None)
    )
    producer.flush(30)
    assert failed == [False]


def send_slowly_copied(cluster: RunningCluster) -> None:
    """300 batches of a kilobyte to one partition."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0})
    for number in range(300):
        producer.produce(TOPIC, bytes([number % 256]) * 1000, partition=1)
        producer.flush(30)
    assert len(producer) == 0


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.rotates("planned switches")
@pytest.mark.parametrize("controller", [KRAFT, pytest.param(ZOOKEEPER, marks=pytest.mark.java)])
def test_a_planned_switch_that_is_killed_is_finished_by_the_same_command_and_loses_nothing(
    controller: str, tmp_path: Path, dice: random.Random, request: pytest.FixtureRequest
):
    """To B while it is sent, killed after a drawn step; then back to A. Both sites are equal."""
    with both_sites(tmp_path, zookeeper_of(controller, request, dice)) as sites:
        a, b = sites.clusters["A"], sites.clusters["B"]
        create(a, TOPIC, PARTITIONS)
        sender = AcknowledgedProducer(a.bootstrap, dice)
        try:
            sender.wait_for(500)
            sites.wait_until_copying("A")
            commit(a, "readers", 17)
            commit(a, "moving", 1)
            commits = AcknowledgedCommits(a.bootstrap, "moving", sender)
            wait_until(lambda: commits.acknowledged > 20, "a group moves")
            sites.switch_killed_after("B", dice.choice(STEPS_WITH_A_KILL))
            done = sites.switch("B", "--json")
            assert done.returncode == 0, done.stdout + done.stderr
        finally:
            acknowledged = sender.stop()
        assert commits.refused.wait(10)
        assert committed(b, "moving", TOPIC) == commits.stop()
        assert sum(sites.ends("A")) >= acknowledged
        sites.assert_equal()
        said = json.loads(done.stdout)
        assert (said["number"], said["notes"]) == (1, [])
        assert sum(one["end"] for one in said["partitions"]) == sum(sites.ends("B"))
        assert committed(b, "readers", TOPIC) == 17
        commit(a, "others", 3)  # taken again
        assert is_read_only(a)
        assert (
            json.loads(sites.switch("B", "--json").stdout)["number"] == 1
        )  # nothing was left to do
        send_one(b)
        sites.wait_until_copying("B")
        sites.wait_until_equal()
        back = sites.switch_after_step("A", "fenced", lambda: make_late_topic(b))
        assert "A is the primary since site epoch 2" in back
        assert SiteReader(a.bootstrap).ends("data.late", 0) == (0, 1)
        send_one(a, "data.late")
        send_one(a)
        sites.wait_until_copying("A")
        sites.wait_until_equal()
        sites.assert_equal()
        assert sites.epoch_numbers() == [2, 2]
        assert is_read_only(b)


SLOW_LINK = {
    "mirror.link_bytes_per_s": "10000", "mirror.fetch_bytes": "8000", "mirror.append_bytes": "8000",
    "mirror.partition_fetch_bytes": "4000",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.rotates("planned switches")
def test_a_switch_is_refused_is_given_up_in_its_drain_and_has_one_winner(
    tmp_path: Path, dice: random.Random
):
    """A topic that is not copied; a slow link; two commands at once."""
    with both_sites(tmp_path, **SLOW_LINK) as sites:
        a, b = sites.clusters["A"], sites.clusters["B"]
        create(a, TOPIC, PARTITIONS)
        create(b, "data.there")
        create(a, "data.there")
        wait_until(lambda: sites.mirror.state_of("data.there") == "not_a_mirror", "it is named")
        refused = sites.switch("B")
        assert (refused.returncode, sites.epoch_numbers()) == (1, [0, 0])
        assert "data.there: not_a_mirror" in refused.stderr
        with SyncClient(b.bootstrap, "test") as client:
            commands.delete_topic(client, "data.there")
        wait_until(lambda: sites.mirror.state_of("data.there") == "copying", "it is copied")
        sites.wait_until_copying("A")
        send_slowly_copied(a)
        sites.switch_killed_after("B", "draining", "--max-lag-s", "100")
        assert is_read_only(a)
        assert is_read_only(b)
        given_up = sites.switch("A")
        assert given_up.returncode == 0, given_up.stdout + given_up.stderr
        assert sites.epoch_numbers() == [2, 2]
        assert sites.ends("A") != sites.ends("B")
        send_one(a)
        sites.mirror.kill()
        for key in SLOW_LINK:
            del sites.mirror.settings[key]
        sites.mirror.start()
        sites.wait_until_copying("A")
        at_once = [
            subprocess.Popen(
                [*sites.mirror.words, "mirror", "switch", "--to", "B", "--json"],
                cwd=PROJECT_ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
            for _ in range(2)
        ]  # fmt: skip
        outcomes = [(one.communicate(timeout=120), one.returncode) for one in at_once]
        assert any(code == 0 for _, code in outcomes), outcomes
        assert sites.epoch_numbers() == [3, 3]
        send_one(b)
        sites.wait_until_copying("B")
        drilled = sites.mirror.command("drill", "--json")
        assert drilled.returncode == 0, drilled.stdout + drilled.stderr
        protocol = json.loads(drilled.stdout)
        assert (protocol["there"], protocol["back"], protocol["notes"]) == (4, 5, [])
        assert min(protocol[key] for key in ("there_ms", "turned_ms", "back_ms")) > 0
        longer_s = max(protocol["there_ms"], protocol["back_ms"]) / 1000
        wait_until(lambda: sites.mirror.status().rto_s == longer_s, "the mirror says its RTO")
        send_one(b)
        sites.wait_until_equal()
        sites.assert_equal()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_after_a_forced_switch_the_report_is_true_and_the_way_back_keeps_what_only_a_had(
    tmp_path: Path, dice: random.Random
):
    """A dies with thousands of records that the slow link has not carried; B goes on, beyond where
    A's log ended. A's store has read A's tail, and has all of B's records afterwards as well. A's
    own rows are named at A, each once, though the command was killed."""
    with both_sites(tmp_path, **SLOW_LINK) as sites:
        a, b = sites.clusters["A"], sites.clusters["B"]
        create(a, TOPIC, PARTITIONS)
        sites.wait_until_copying("A")
        leave_transaction_open(b, a.cluster_id)
        sent = send_records(a, 10_000)
        commit(a, "readers", 9_000)
        stores = {
            name: StoringSite(cluster, tmp_path / f"store-{name}", TOPIC)
            for name, cluster in sites.clusters.items()
        }
        former_rows = stores["A"].run()
        assert len(former_rows) == sent
        wait_until(lambda: heard(sites) > 9_000, "the mirror has heard of what A has")
        a.kill(1)
        assert sites.switch("B").returncode == 1
        sites.switch_killed_after("B", dice.choice(["begun", "claimed", "opened"]), "--force")
        done = sites.switch("B", "--force", "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        said = json.loads(done.stdout)
        [aborted] = [one for one in said["partitions"] if one["detail"]]
        assert aborted["detail"] == f"aborted: producer {PRODUCER} from offset 0"
        assert count_committed(b, "data.transactions") == 0
        ends = {one["partition"]: one["end"] for one in said["partitions"] if one["topic"] == TOPIC}
        known = sum(one["known_missing"] for one in said["partitions"])
        assert 0 < known <= sent - sum(ends.values())
        send_one(b)
        send_records(b, sent)
        a.restart(1)  # it does not know of the epoch yet, and waits until the mirror tells it
        refused = sites.switch("B", "--force")
        assert refused.returncode == 1
        sites.switch_killed_after("", "compared", "--back")
        back = sites.switch("", "--back", "--json")
        assert back.returncode == 0, back.stdout + back.stderr
        own = [one for one in json.loads(back.stdout)["partitions"] if one["file"]]
        assert sum(one["records"] for one in own) == sent - sum(ends.values())
        assert_files_are_sound(own)
        told = sites.mirror.command("report", "--json")
        missing = json.loads(told.stdout)["missing"]
        assert missing["missing"] == missing["own"] == sent - sum(ends.values()), "the last truth"
        assert 0 < committed(a, "readers", TOPIC) <= ends[0]
        for key in SLOW_LINK:
            del sites.mirror.settings[key]
        sites.mirror.kill()
        sites.mirror.start()
        sites.wait_until_copying("B")
        sites.wait_until_equal()
        sites.assert_equal()
        assert is_read_only(a)
        rows = {name: store.run() for name, store in stores.items()}
        own_rows = former_rows - rows["B"]
        assert len(own_rows) == sum(one["records"] for one in own)
        assert rows["A"] == rows["B"] | own_rows
        parts = tail_parts_at(a)
        assert {part.epoch for part in parts} == {1}
        ids = [record_id for part in parts for record_id in part.ids]
        assert sorted(ids) == sorted(own_rows)
        assert stores["A"].run() == rows["A"], "positions go back once"
        home = sites.switch("A")
        assert home.returncode == 0, home.stdout + home.stderr
        send_one(a)
        assert sites.epoch_numbers() == [3, 3]
        told = sites.mirror.command("report")
        assert "planned" in told.stdout


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_the_way_back_waits_while_a_topic_of_the_primary_is_still_called_a_copy(
    tmp_path: Path, dice: random.Random
):
    """A forced switch was interrupted, or a broker is behind. What broke, found by simulation: the
    way back found nothing to cut, and called the former primary rejoined and its report final."""
    with both_sites(tmp_path) as sites:
        a = sites.clusters["A"]
        create(a, TOPIC, PARTITIONS)
        send_records(a, 100)
        sites.wait_until_copying("A")
        force = ("--force", "--it-answers")
        sites.switch_killed_after("B", dice.choice(["begun", "claimed"]), *force)
        send_records(a, 50)
        before = sites.ends("A")
        refused = sites.switch("", "--back")
        assert refused.returncode == 1
        assert f"still copies {TOPIC}" in refused.stderr
        assert sites.ends("A") == before
        assert sites.switch("B", *force).returncode == 0
        back = sites.switch("", "--back")
        assert back.returncode == 0, back.stdout + back.stderr
        sites.wait_until_copying("B")
        sites.assert_equal()


def leave_transaction_open(cluster: RunningCluster, source: str) -> None:
    """A topic as the mirror would have it whose source died within a transaction."""
    batch = build_batch(
        [Record(b"k", b"not committed")], producer_id=PRODUCER, producer_epoch=0, base_sequence=0,
        is_transactional=True,
    )  # fmt: skip
    with SyncClient(cluster.mirror_bootstrap, "test") as client:
        commands.create_topic(
            client, "data.transactions", partitions=1, configs={"mirror.source.cluster.id": source}
        )
        wait_until(lambda: leader_of(client, "data.transactions") == 1, "it has a leader")
        assert mirror(client, "data.transactions", source=source).error_code == 0
        appended = mirror(client, "data.transactions", bytes(batch), base_offset=0, source=source)
        assert appended.error_code == 0


def count_committed(cluster: RunningCluster, topic: str) -> int:
    """What a read_committed consumer gets; it comes to the end, so no transaction is open."""
    reader = Consumer({
        "bootstrap.servers": cluster.bootstrap, "group.id": "counts", "enable.partition.eof": True,
        "auto.offset.reset": "earliest", "isolation.level": "read_committed",
    })  # fmt: skip
    reader.assign([TopicPartition(topic, 0, 0)])
    count = 0
    while (found := reader.poll(30)) is not None and found.error() is None:
        count += 1
    assert found is not None
    assert found.error().code() == KafkaError._PARTITION_EOF
    reader.close()
    return count


def heard(sites: Sites) -> int:
    return sum(max(one.source_end, 0) for one in sites.mirror.status().partitions)


def send_records(cluster: RunningCluster, count: int) -> int:
    """To the first partition, in batches of some kilobytes."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "linger.ms": 5, "batch.size": 4000}
    )
    for number in range(count):
        producer.produce(TOPIC, b"%06d" % number + bytes(40), partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0
    return count


def tail_parts_at(cluster: RunningCluster) -> list[DivergedRange]:
    """As they stand once the topic is compacted."""
    newest: dict[bytes, DivergedRange] = {}
    for _, _, raw in SiteReader(cluster.bootstrap).batches(CONTROL_MIRROR_TAILS, 0):
        for record in read_records(raw[:12] + bytes(4) + raw[12:]):
            part = decode_diverged_range(bytes(record.value or b""))
            assert part is not None
            assert record.key == part.key
            newest[part.key] = part
    return list(newest.values())


def assert_files_are_sound(own: list[dict[str, object]]) -> None:
    """A line per record; the checksum beside each file is right."""
    for one in own:
        path = Path(str(one["file"]))
        assert len(path.read_bytes().splitlines()) == one["records"]
        checked = subprocess.run(
            ["sha256sum", "--check", f"{path.name}.sha256"], cwd=path.parent, capture_output=True
        )
        assert checked.returncode == 0

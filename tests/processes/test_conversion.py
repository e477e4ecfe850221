"""An open cluster of three is closed while it works: the command is killed at any moment and given again, and of what
producers were told is stored nothing is missing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from listening import LISTEN, sockets_of
from test_secured_demo import is_tls

from bus.client.admin import commands, queries
from bus.client.admin.config_resources import BROKER, AlterConfigOp
from bus.client.admin.config_resources import TOPIC as TOPIC_CONFIG
from bus.client.kafka.consumer import Consumer
from bus.client.kafka.producer import Producer
from bus.client.model import TopicPartition
from bus.client.wire.sync_client import SyncClient
from bus.contracts.access import OPERATOR
from bus.contracts.mirror import REFUSED_COMMITS_KEY
from bus.contracts.site_epoch import SITE_EPOCH_KEY, EpochKind, SiteEpoch
from bus.errors import BusError
from bus.settings import BusSettings
from deploy.cluster.layout import ClusterPlan, ControllerKind, plan
from deploy.cluster.processes import cluster_processes, cluster_settings
from deploy.cluster.run import about
from deploy.paths import PROJECT_ROOT
from deploy.roles.table import children
from deploy.secure.account_settings import as_logged_in
from deploy.secure.broker_keys import BROKERS_PORT_STEP, ConversionStage
from deploy.secure.conversion_file import is_converting, read_stage
from deploy.secure.layout import AUTHORITY_CERTIFICATE
from deploy.servers.process import free_range
from deploy.settings.composed import Settings, load
from deploy.supervisor.state_file import supervised
from deploy.supervisor.supervisor import Supervisor
from tests.processes.cluster.stories import CONTROLLERS
from tests.rotation import drawn

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.timeout(1200)]

TOPIC, PARTITIONS = "load", 3
WAIT_S = 300.0
PACE_S = 0.005
FAR_FROM_PRODUCTS = 40
"""Ports between the cluster's first and those of the edge and the watch."""
MOST_COMMANDS = 80


class LoadOnTopic:
    """A producer that counts what it was told is stored, and a consumer that counts what it reads. Both move to another
    way of connecting when they are asked to."""

    def __init__(self, bus: BusSettings) -> None:
        self._bus = bus
        self.stored: set[bytes] = set()
        self.refused: list[object] = []
        self.read: set[bytes] = set()
        self._sent = 0
        self._positions = {TopicPartition(TOPIC, n): 0 for n in range(PARTITIONS)}
        self._ended = threading.Event()
        self._moved: dict[str, BusSettings] = {}
        self._threads = [threading.Thread(target=one, daemon=True) for one in (self._write, self._read)]
        for one in self._threads:
            one.start()

    def move(self, bus: BusSettings) -> None:
        """As an operator does: with the new settings both start again."""
        self._bus = bus

    def end(self) -> None:
        """The producer is told of all that it has sent; the consumer has read all that is stored."""
        deadline = time.monotonic() + WAIT_S
        self._ended.set()
        for one in self._threads:
            one.join(deadline - time.monotonic())
            assert not one.is_alive()

    def _write(self) -> None:
        while not self._ended.is_set():
            bus = self._bus
            producer = Producer(bus, client_id="load", overrides={"message.timeout.ms": int(WAIT_S * 1000)})
            while bus is self._bus and not self._ended.wait(PACE_S):
                self._sent += 1
                value = b"%d" % self._sent
                producer.send(TOPIC, value, key=value, on_delivery=lambda told, v=value: self._told(told, v))  # type: ignore[misc]
            assert not producer.close(WAIT_S)

    def _told(self, told: object, value: bytes) -> None:
        if isinstance(told, Exception):
            self.refused.append(told)
        else:
            self.stored.add(value)

    def _read(self) -> None:
        deadline = float("inf")
        while not self._is_read_to_its_end():
            bus = self._bus
            with Consumer(bus, client_id="load-reader") as consumer:
                consumer.assign(self._positions)
                while bus is self._bus and not self._is_read_to_its_end():
                    for one in consumer.poll(500, 0.2):
                        assert one.value is not None
                        self.read.add(one.value)
                        self._positions[TopicPartition(TOPIC, one.partition)] = one.offset + 1
                    if self._ended.is_set() and deadline == float("inf"):
                        deadline = time.monotonic() + WAIT_S
                    assert time.monotonic() < deadline, f"missing: {len(self.stored - self.read)}"

    def _is_read_to_its_end(self) -> bool:
        return self._ended.is_set() and not self._threads[0].is_alive() and self.stored <= self.read


class ConvertedSite:
    """One machine: brokers, an edge and a watch under one supervisor, open at first."""

    def __init__(self, folder: Path, kind: ControllerKind, brokers: int = 3) -> None:
        port = free_range(FAR_FROM_PRODUCTS + 10)
        self.folder = folder
        self.config = folder / "databus.toml"
        self.config.write_text(
            f'[site]\ndata_dir = "{folder / "data"}"\n[bus]\nbootstrap_servers = "127.0.0.1:{port}"\n'
            f"[edge]\nport = {port + FAR_FROM_PRODUCTS}\nspool_min_free_bytes = 0\n"
            f"[watch]\nmetrics_port = {port + FAR_FROM_PRODUCTS + 1}\n"
        )
        self.plan: ClusterPlan = plan(
            folder / "data", brokers=brokers, controller=kind, first_port=port,
            first_zookeeper_port=port + FAR_FROM_PRODUCTS + 3,
        )  # fmt: skip
        self.settings: Settings = cluster_settings(load(str(self.config), environment={}), self.plan)
        nodes = cluster_processes(self.settings, self.plan)
        names = [child.name for child in nodes]
        processes = children(
            self.settings, ["broker", "edge", "watch"], others=nodes, stands_for={"broker": names}
        )
        self.supervisor = Supervisor(processes, folder / "data", about=about(self.plan))

    @property
    def secure(self) -> Path:
        return self.folder / "data" / "secure"

    def stage(self) -> ConversionStage | None:
        return read_stage(self.secure) if is_converting(self.secure) else None

    def command(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "deploy", "--config", str(self.config), *words], cwd=PROJECT_ROOT,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def databus(self, *words: str) -> tuple[int, str]:
        process = self.command(*words)
        said = process.communicate(timeout=WAIT_S * 2)[0]
        return process.returncode, said

    def logs(self) -> str:
        return "\n".join(
            f"--- {path.name}\n{path.read_text(errors='replace')[-1500:]}"
            for path in sorted((self.folder / "data" / "log").glob("*.log"))
        )


@contextlib.contextmanager
def supervised_site(made: ConvertedSite) -> Iterator[ConvertedSite]:
    asked = threading.Event()

    async def supervise() -> None:
        await made.supervisor.start()
        while not asked.is_set():
            await asyncio.sleep(0.1)
        await made.supervisor.stop()

    thread = threading.Thread(target=asyncio.run, args=(supervise(),))
    thread.start()
    try:
        deadline = time.monotonic() + WAIT_S
        while not made.supervisor.all_ready:
            assert not made.supervisor.failed, made.logs()
            assert time.monotonic() < deadline, made.logs()
            time.sleep(0.1)
        yield made
    finally:
        asked.set()
        thread.join(WAIT_S)


@pytest.fixture(params=drawn("conversions", CONTROLLERS))
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ConvertedSite]:
    with supervised_site(ConvertedSite(tmp_path, ControllerKind(request.param))) as made:
        yield made


@pytest.fixture
def small_site(tmp_path: Path) -> Iterator[ConvertedSite]:
    """Of one broker."""
    with supervised_site(ConvertedSite(tmp_path, ControllerKind.KRAFT, brokers=1)) as made:
        yield made


def begin(site: ConvertedSite) -> None:
    """The folder is made, and the settings name it."""
    assert site.databus("secure", "init", "--json")[0] == 0
    assert site.databus("secure", "convert", "next")[0] == 0
    assert site.stage() is ConversionStage.OPEN
    status, told = site.databus("secure", "convert", "next")
    assert status == 1
    assert 'folder = "secure"' in told
    with site.config.open("a") as config:
        config.write('[security]\nfolder = "secure"\n')


def test_there_is_a_way_back_until_the_site_is_closed(small_site: ConvertedSite) -> None:
    begin(small_site)
    roles = ("broker-1", "edge", "watch")

    def go(word: str, *more: str) -> tuple[ConversionStage | None, set[str]]:
        """The stage, and which processes have started again."""
        before = {one.role: one.pid for one in supervised(small_site.settings.site.data_path)}
        status, told = small_site.databus("secure", "convert", word, *more)
        assert status == 0, told
        after = {one.role: one.pid for one in supervised(small_site.settings.site.data_path)}
        return small_site.stage(), {role for role in roles if before[role] != after[role]}

    broker, others = {"broker-1"}, {"edge", "watch"}
    assert go("next") == (ConversionStage.BOTH, broker)
    assert go("back") == (ConversionStage.OPEN, broker)
    assert go("next") == (ConversionStage.BOTH, broker)
    assert go("next") == (ConversionStage.BROKERS, broker)
    assert go("next") == (ConversionStage.PROCESSES, others)
    assert go("back") == (ConversionStage.BROKERS, others)
    assert go("next") == (ConversionStage.PROCESSES, others)
    assert go("next", "--anyway") == (ConversionStage.CLOSED, broker)
    for word in ("next", "back"):
        status, told = small_site.databus("secure", "convert", word)
        assert status == 1
        assert "nothing left" in told or "no way back" in told


def test_while_a_switch_of_sites_is_under_way_no_stage_begins(small_site: ConvertedSite) -> None:
    """As the switch leaves a former primary between its fence and the end: with the epoch, and a topic of it."""
    begin(small_site)
    with SyncClient.of(small_site.settings.bus, "test") as client:
        commands.create_topic(client, TOPIC, partitions=1)
        own = queries.cluster(client).cluster_id
        epoch = SiteEpoch(1, EpochKind.PLANNED, own, "another", 1, "test")
        switching = [(REFUSED_COMMITS_KEY, AlterConfigOp.SET, "1")]
        commands.alter_configs(client, {(BROKER, ""): [(SITE_EPOCH_KEY, AlterConfigOp.SET, epoch.text)]})
        commands.alter_configs(client, {(TOPIC_CONFIG, TOPIC): switching})
        status, told = small_site.databus("secure", "convert", "next")
        assert status == 1
        assert "switch of sites" in told
        assert small_site.stage() is ConversionStage.OPEN
        over = [(REFUSED_COMMITS_KEY, AlterConfigOp.DELETE, None)]
        commands.alter_configs(client, {(TOPIC_CONFIG, TOPIC): over})
    assert small_site.databus("secure", "convert", "next")[0] == 0
    assert small_site.stage() is ConversionStage.BOTH


def test_a_cluster_at_work_is_closed_and_loses_nothing_though_the_command_is_killed(
    site: ConvertedSite, dice: random.Random
) -> None:
    plain = site.settings.bus
    with SyncClient.of(plain, "test") as client:
        commands.create_topic(client, TOPIC, partitions=PARTITIONS, replication_factor=3)
    begin(site)
    account = as_logged_in(site.settings, site.secure, OPERATOR).bus
    load_on_topic = LoadOnTopic(plain)
    try:
        kill_once_recorded(site, ConversionStage.BOTH)
        for _ in range(MOST_COMMANDS):
            if site.stage() is ConversionStage.PROCESSES:
                break
            go_on_or_be_killed(site, dice)
        assert site.stage() is ConversionStage.PROCESSES
        site.databus("secure", "convert", "next", "--quiet", "10m")
        status, told = site.databus("secure", "convert", "next", "--quiet", "10m")
        assert status == 1
        assert "load from 127.0.0.1" in told
        assert site.stage() is ConversionStage.PROCESSES
        load_on_topic.move(account)
        for _ in range(MOST_COMMANDS):
            if site.stage() is ConversionStage.CLOSED and not unfinished(site):
                break
            go_on_or_be_killed(site, dice)
        load_on_topic.end()
    except BaseException:
        print(site.logs())
        raise
    assert not load_on_topic.refused
    assert load_on_topic.stored
    assert load_on_topic.stored == load_on_topic.read
    check_closed(site, plain)


def kill_once_recorded(site: ConvertedSite, stage: ConversionStage) -> None:
    """Between the record of a stage and the end of what it asks for, whatever is drawn."""
    process = site.command("secure", "convert", "next")
    deadline = time.monotonic() + WAIT_S
    while site.stage() is not stage:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert process.poll() is None, "three brokers do not start again in a moment"
    process.kill()
    process.communicate()


def go_on_or_be_killed(site: ConvertedSite, dice: random.Random) -> None:
    """One command, every second time killed at a drawn moment if it lives so long."""
    process = site.command("secure", "convert", "next", "--quiet", "3s")
    if dice.random() < 0.5:
        try:
            process.wait(dice.uniform(0.5, 15.0))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            return
    print(process.communicate(timeout=WAIT_S * 2)[0])


def unfinished(site: ConvertedSite) -> bool:
    status, told = site.databus("secure", "convert", "status", "--json")
    assert status == 0, told
    return any(row["stage"] != "CLOSED" for row in json.loads(told))


def check_closed(site: ConvertedSite, plain: BusSettings) -> None:
    """By the sockets, by a plain client, by `secure check`, and by the edge that has moved."""
    with pytest.raises(BusError), SyncClient.of(plain, "test") as client:
        queries.topics(client)
    pids = {one.role: one.pid for one in supervised(site.settings.site.data_path)}
    for node in site.plan.nodes:
        pid = pids[node.name]
        assert pid is not None
        listening = {one.port for one in sockets_of(pid) if one.state == LISTEN}
        closed = {node.port, node.port + BROKERS_PORT_STEP} | ({node.controller_port} - {0})
        assert listening == closed | {node.metrics_port}
        assert all(is_tls(port, site.secure / AUTHORITY_CERTIFICATE) for port in closed)
    _, told = site.databus("secure", "check", "--json")
    findings = json.loads(told)["findings"]
    assert [one for one in findings if one["check"] != "open-zookeeper"] == [], told
    left_plain = {one["where"] for one in findings if "conversion.json" in one["remedy"]}
    of_zookeeper = site.plan.nodes if site.plan.controller is ControllerKind.ZOOKEEPER else ()
    assert len(left_plain) == len(findings) == len(of_zookeeper), told
    states = {one.role: one.state for one in supervised(site.settings.site.data_path)}
    assert {states["edge"], states["watch"]} == {"running"}

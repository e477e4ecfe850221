"""The roles as they are run, each a process of its own: what the watch tells of one that is killed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import msgspec
import pytest

from alarm.dispatch.reader import OperationsReader
from bus.client.kafka.admin import Admin
from bus.client.kafka.consumer import BEGINNING, Consumer
from bus.contracts.alarms import Incident
from bus.contracts.topics import EVENT_INCIDENT, TOPICS
from bus.settings import BusSettings
from deploy.paths import PROJECT_ROOT
from deploy.servers.process import free_port
from ingest.store.port import PageRequest, StoreUnavailable

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

BOUND_S = 3
WITHIN_S = BOUND_S + 60.0
READY_S = 90.0


class WatchedRoles:
    """Processes over one data directory, as `databus run` starts them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.broker, self.edge = folder, free_port(), free_port()
        self.watch, self.dispatcher = free_port(), free_port()
        self.bus = BusSettings(bootstrap_servers=f"127.0.0.1:{self.broker}")
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        folder.mkdir()

    def start(self, role: str) -> None:
        settings = {
            "site.data_dir": self.folder, "bus.bootstrap_servers": self.bus.bootstrap_servers,
            "broker.listeners": f"PLAINTEXT://{self.bus.bootstrap_servers}",
            "broker.metrics.port": 0, "broker.group.initial.rebalance.delay.ms": 0,
            "edge.port": self.edge, "watch.metrics_port": self.watch,
            "dispatcher.metrics_port": self.dispatcher,
            "watch.away_s": BOUND_S, "watch.probe_interval_s": 0.3,
            "watch.health.console": "", "watch.health.streams": "",
        }  # fmt: skip
        words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        with self.log_path(role).open("ab") as log:
            self._running[role] = subprocess.Popen(
                [sys.executable, "-m", "deploy", *words, "run", role], cwd=PROJECT_ROOT,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def kill(self, role: str) -> None:
        self._running[role].kill()
        self._running[role].wait()

    def end(self) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()

    def log_path(self, role: str) -> Path:
        return self.folder / f"{role}.log"

    def is_well(self, port: int) -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    def until(self, what: Callable[[], bool], within_s: float) -> None:
        deadline = time.monotonic() + within_s
        while not what():
            tails = [self.log_path(role).read_text()[-1500:] for role in self._running]
            assert time.monotonic() < deadline, "\n".join(tails)
            time.sleep(0.1)

    def told(self) -> list[Incident]:
        """What stands on `event.incident`."""
        with Consumer(self.bus, client_id="test") as consumer:
            consumer.assign(dict.fromkeys(consumer.partitions_of(EVENT_INCIDENT), BEGINNING))
            found = []
            while not consumer.at_end:
                found += consumer.poll(100, 0.2)
        return [msgspec.json.decode(one.value or b"", type=Incident) for one in found]

    def stored(self) -> list[tuple[str, str]]:
        """Kind and state of what the dispatcher has recorded."""
        try:
            reader = OperationsReader(self.folder / "store" / "operations.db")
        except StoreUnavailable:
            return []
        found, _ = reader.incidents(page=PageRequest())
        reader.close()
        return [(one.kind, one.state) for one in found]


@pytest.fixture
def roles(tmp_path: Path) -> Iterator[WatchedRoles]:
    roles = WatchedRoles(tmp_path / "var")
    try:
        roles.start("broker")
        admin = Admin(roles.bus, client_id="test")
        admin.wait_until_up(READY_S)
        admin.ensure_topics(TOPICS.values())
        admin.close()
        for role in ("edge", "dispatcher", "watch"):
            roles.start(role)
        roles.until(
            lambda: all(map(roles.is_well, (roles.edge, roles.dispatcher, roles.watch))), READY_S
        )
        yield roles
    finally:
        roles.end()


def test_an_edge_that_is_killed_is_told_once_and_its_end_too(roles: WatchedRoles) -> None:
    """kill -9: within a minute after the bound it is on the topic and in the operations store; the
    end, when a new process answers."""
    assert roles.told() == []
    roles.kill("edge")
    roles.until(lambda: len(roles.told()) > 0, WITHIN_S)
    roles.until(lambda: roles.stored() == [("away", "open")], WITHIN_S)
    roles.start("edge")
    roles.until(lambda: len(roles.told()) > 1, READY_S + WITHIN_S)
    roles.until(lambda: roles.stored() == [("away", "closed")], WITHIN_S)
    opened, closed = roles.told()
    assert (opened.kind, opened.state, opened.detail["subject"]) == ("away", "open", "edge")
    assert (closed.incident_id, closed.state) == (opened.incident_id, "closed")

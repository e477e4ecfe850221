"""The environment of a story: the cluster and what its fault needs.

In: the needs. Out: a running cluster, networks, a link, a small disk, a ZooKeeper. Never: more than
the story needs; `close` ends and removes everything.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from deploy.paths import PROJECT_ROOT
from deploy.servers.databus_cluster import RunningCluster, free_port, start_cluster
from deploy.servers.small_disk import ResizableDisk
from deploy.servers.zookeeper import start_zookeeper
from tests.processes.cluster.networks import Networks
from tests.processes.slow_fsync import check_strace

BROKERS = 3
DISK_BYTES = 400 << 20
PROPERTIES = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "replica.lag.time.max.ms": "10000",
}


@dataclass(frozen=True, slots=True)
class Needs:
    """What a fault needs."""

    controller: str = "kraft"
    separate_controllers: int = 0
    networks: bool = False
    link: bool = False
    small_disk: bool = False
    strace: bool = False


class Theatre:
    """A cluster and its environment. `behind_link` is the port of broker 1, which bypasses the
    link.

    Invariant: `_exit` undoes everything that was started, in reverse order.
    """

    def __init__(self, folder: Path, needs: Needs) -> None:
        self._exit = contextlib.ExitStack()
        self.disk_bytes = DISK_BYTES
        self.zookeeper_host = "127.0.0.1"
        try:
            self._build(folder, needs)
        except BaseException:
            self.close()
            raise

    def _build(self, folder: Path, needs: Needs) -> None:
        hosts: list[str] = []
        prefixes: list[tuple[str, ...]] = []
        if needs.networks:
            self.networks = Networks(BROKERS)
            self._exit.callback(self.networks.close)
            numbers = range(1, BROKERS + 1)
            hosts = [self.networks.address(number) for number in numbers]
            prefixes = [self.networks.prefix(number) for number in numbers]
            self.zookeeper_host = self.networks.router
        if needs.strace:
            check_strace()
        if needs.small_disk:
            self.small_disk = ResizableDisk(folder / "broker-2" / "logs", DISK_BYTES)
            self._exit.callback(self.small_disk.unmount)
        connect = None
        if needs.controller == "zookeeper":
            server = start_zookeeper(folder / "zookeeper", host=self.zookeeper_host)
            self._exit.callback(server.stop)
            connect = f"{self.zookeeper_host}:{server.port}"
        behind_link: dict[str, str] = {}
        if needs.link:
            link_port = free_port()
            behind_link["advertised.listeners"] = f"PLAINTEXT://127.0.0.1:{link_port}"
            self._start_link(link_port)
            if connect is not None:
                # The controller must reach it through the link before it serves.
                port = free_port()
                behind_link["listeners"] = f"PLAINTEXT://127.0.0.1:{port}"
                self.behind_link = port
                self.link(f"to {port}")
        self.cluster: RunningCluster = start_cluster(
            folder, BROKERS, needs.controller, PROPERTIES, needs.separate_controllers,
            zookeeper_connect=connect, hosts=hosts, prefixes=prefixes,
            node_properties={1: behind_link},
        )  # fmt: skip
        self._exit.callback(self.cluster.stop)
        if needs.link and connect is None:
            self.behind_link = self.cluster.plan[1].port
            self.link(f"to {self.behind_link}")

    def link(self, word: str) -> None:
        """Sends a command to the link; it has taken effect when this returns."""
        if self._link.stdin is None or self._link.stdout is None:
            raise AssertionError("the link was started without pipes")
        self._link.stdin.write(word + "\n")
        self._link.stdin.flush()
        assert self._link.stdout.readline() == "done\n"

    def start_together(self, nodes: list[int]) -> None:
        """Starts nodes that need each other to serve, at the same time."""
        threads = [
            threading.Thread(target=self.cluster.restart, args=(node_id,)) for node_id in nodes
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def close(self) -> None:
        """Ends and removes everything."""
        self._exit.close()

    def _start_link(self, port: int) -> None:
        self._link = subprocess.Popen(
            [sys.executable, "-m", "tests.processes.cluster.slow_link", str(port)],
            cwd=PROJECT_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._exit.callback(self._link.wait)
        self._exit.callback(self._link.kill)
        if self._link.stdout is None or self._link.stdout.readline() != "ready\n":
            raise AssertionError("the link did not start")

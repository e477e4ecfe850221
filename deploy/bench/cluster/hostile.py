"""What clients that mean no good do to the others: memory, acknowledgements, in-sync sets.

In: a running cluster. Out: figures by name. Never: a bound here; those are in `figures`.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psutil

from bus.client.admin import queries
from bus.client.wire.sync_client import SyncClient
from bus.errors import BusError
from deploy.bench.cluster.cluster_probe import CLIENT_ID, ClusterProbe
from deploy.bench.cluster.load_client import TIMEOUT_S, run
from deploy.bench.cluster.size import Size
from deploy.bench.cluster.targets import NODES, ClusterTarget
from deploy.bench.cluster.throughput import create
from deploy.errors import OperatorError
from deploy.paths import PROJECT_ROOT

MB = 1_000_000
WATCH_INTERVAL_S = 0.25
UNREAD = ("cluster-unread-memory", "cluster-unread-ack-p99", "cluster-unread-out-of-sync")
FLOOD = ("cluster-flood-ack-p99", "cluster-flood-fenced")
UNREAD_CONNECTIONS, UNREAD_REQUESTS = 100, 64
FLOOD_CONNECTIONS, FLOOD_REQUESTS = 10, 50_000
STORED_RECORDS = 300_000  # of 1 KiB: more than any answer may hold


class ClusterWatcher:
    """Looks at all brokers while others do their worst.

    Invariant: `most_bytes` is the largest resident memory that any of them was seen with beyond
    what it began with; `out_of_sync` and `fenced` count looks at which it was so.
    """

    def __init__(self, target: ClusterTarget, topics: Sequence[str]) -> None:
        self._processes = [psutil.Process(target.pid(node_id)) for node_id in NODES]
        self._before = [process.memory_info().rss for process in self._processes]
        self._probe = ClusterProbe(target.bootstrap, request_timeout_ms=30_000)
        self._topics = topics
        self._controller = self._probe.controller()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.most_bytes = self.out_of_sync = self.fenced = 0

    def _watch(self) -> None:
        while not self._ended.wait(WATCH_INTERVAL_S):
            now = [process.memory_info().rss for process in self._processes]
            grown = [after - before for before, after in zip(self._before, now, strict=True)]
            self.most_bytes = max(self.most_bytes, *grown)
            try:
                self.out_of_sync += not all(map(self._probe.in_sync, self._topics))
                fenced = self._probe.registered() != set(NODES)
                self.fenced += fenced or self._probe.controller() != self._controller
            except (BusError, OperatorError):
                self.out_of_sync += 1
                self.fenced += 1

    def __enter__(self) -> ClusterWatcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._probe.close()


def unread(target: ClusterTarget, names: Sequence[str], size: Size) -> Iterator[tuple[str, float]]:
    """Fetches of everything by connections that take 4 KiB and never read."""
    create(target, "stored", len(NODES))
    run(target, "produce", "--topic", "stored", "--batch", "64", "--partitions", str(len(NODES)),
        "--limit", str(size.log_bytes // 1024 if size.small else STORED_RECORDS),
        "--seconds", "60")  # fmt: skip
    create(target, "others", len(NODES))
    places = leaders(target, "stored")
    with (
        _others(target, ["stored", "others"]) as watcher,
        _hostile("unread", places, "stored", UNREAD_CONNECTIONS, UNREAD_REQUESTS, size),
    ):
        p99 = _acknowledged(target, size)
    found = dict(zip(UNREAD, (watcher.most_bytes / MB, p99, watcher.out_of_sync), strict=True))
    yield from ((name, float(found[name])) for name in names)


def flood(target: ClusterTarget, names: Sequence[str], size: Size) -> Iterator[tuple[str, float]]:
    """Pipelined requests to the active controller's broker, fifty thousand to a write."""
    create(target, "others", len(NODES))
    with SyncClient(target.bootstrap, CLIENT_ID) as nodes:
        controller = queries.quorum(nodes).leader_id
        places = [one for one in leaders(target, "others") if one[1] == controller]
    with (
        _others(target, ["others"]) as watcher,
        _hostile("flood", places, "others", FLOOD_CONNECTIONS, FLOOD_REQUESTS, size),
    ):
        p99 = _acknowledged(target, size)
    found = dict(zip(FLOOD, (p99, watcher.fenced), strict=True))
    yield from ((name, float(found[name])) for name in names)


def leaders(target: ClusterTarget, topic: str) -> list[tuple[str, int]]:
    """`HOST:PORT/PARTITION` of each partition's leader, and its number."""
    with SyncClient(target.bootstrap, CLIENT_ID) as nodes:
        addresses = {one.broker_id: one for one in queries.cluster(nodes).alive}
        partitions = queries.topics(nodes, [topic])[0].partitions
    found = []
    for each in partitions:
        broker = addresses[each.leader]
        found.append((f"{broker.host}:{broker.port}/{each.index}", each.leader))
    return found


@contextmanager
def _others(target: ClusterTarget, topics: Sequence[str]) -> Iterator[ClusterWatcher]:
    watcher = ClusterWatcher(target, topics)
    with watcher:
        yield watcher


@contextmanager
def _hostile(
    program: str,
    places: Sequence[tuple[str, int]],
    topic: str,
    connections: int,
    requests: int,
    size: Size,
) -> Iterator[None]:
    """The program in a process of its own, a little longer than what goes on beside it."""
    command = [
        sys.executable, "-m", "deploy.bench.hostile_client", program, "--topic", topic,
        "--connections", str(connections), "--requests", str(requests),
        "--seconds", f"{_seconds(size) + 2:g}", "--at", *(place for place, _ in places),
    ]  # fmt: skip
    process = subprocess.Popen(
        command, cwd=PROJECT_ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        time.sleep(1)
        yield
        _, errors = process.communicate(timeout=TIMEOUT_S)
        if process.returncode != 0:
            raise OperatorError(f"the hostile client failed: {errors[-400:]}")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _acknowledged(target: ClusterTarget, size: Size) -> float:
    """What a producer waits for meanwhile, with acks=all on all brokers; milliseconds."""
    words = ("--topic", "others", "--seconds", f"{_seconds(size):g}")
    return float(run(target, "acknowledge", *words)["p99"])


def _seconds(size: Size) -> float:
    return 10.0 if size.small else 60.0

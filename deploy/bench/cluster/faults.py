"""What a death costs: gaps in acknowledged writes, a fail-over, a start after kill -9.

In: a running cluster. Out: figures by name. Never: a cluster left with a node down.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence

from deploy.bench.cluster.cluster_probe import CREATE_TIMEOUT_MS, ClusterProbe, wait_until
from deploy.bench.cluster.load_client import GapWriter, run
from deploy.bench.cluster.size import Size
from deploy.bench.cluster.targets import ClusterTarget
from deploy.bench.cluster.throughput import create

KILL, TERM = "cluster-kill", "cluster-term"
CONTROLLER, RESTART = "cluster-controller", "cluster-restart"
GAPS = (KILL, TERM)
STEADY_S = 1.0  # of writing before and after a fault
TOPIC = "gap"
FILL_PARTITIONS = 6
RECORD_BYTES = 1024


def gaps(target: ClusterTarget, names: Sequence[str], size: Size) -> Iterator[tuple[str, float]]:
    """kill -9 of a leader; SIGTERM of a leader, the median of several."""
    create(target, TOPIC, partitions=1)
    probe = ClusterProbe(target.bootstrap)
    try:
        if TERM in names:
            longest = [_gap(target, probe, target.terminate) for _ in range(size.terms)]
            yield TERM, statistics.median(longest)
        if KILL in names:
            yield KILL, _gap(target, probe, target.kill)
    finally:
        probe.close()


def _gap(target: ClusterTarget, probe: ClusterProbe, strike: Callable[[int], None]) -> float:
    """The longest gap in acknowledged writes around one fault of the leader; healed afterwards."""
    wait_until(lambda: probe.in_sync(TOPIC), "all copies are in sync")
    victim = probe.leader(TOPIC)
    with GapWriter(target, TOPIC) as writer:
        time.sleep(STEADY_S)
        strike(victim)
        wait_until(lambda: probe.leader(TOPIC) != victim, "another broker leads")
        time.sleep(STEADY_S)
        longest = float(writer.end()["longest_s"])
    target.restart(victim)
    return longest


def controller(target: ClusterTarget, size: Size) -> float:
    """Seconds from kill -9 of the active controller until the cluster takes a new topic."""
    maker = ClusterProbe(target.bootstrap, request_timeout_ms=CREATE_TIMEOUT_MS)
    maker.create("many", size.partitions, 3)
    maker.close()
    probe = ClusterProbe(target.bootstrap)
    try:
        victim = probe.controller()
        target.kill(victim)
        began, tries = time.perf_counter(), iter(range(1_000_000))
        wait_until(lambda: probe.try_create(f"after-{next(tries)}"), "a new topic is taken")
        seconds = time.perf_counter() - began
        target.restart(victim)
        return seconds
    finally:
        probe.close()


def restart(target: ClusterTarget, size: Size) -> float:
    """Seconds from the start of a broker that died with so much log until it may lead again."""
    create(target, "full", partitions=FILL_PARTITIONS)
    limit = str(size.log_bytes // RECORD_BYTES)
    run(target, "produce", "--topic", "full", "--batch", "0", "--limit", limit, "--seconds", "800",
        "--record-bytes", str(RECORD_BYTES))  # fmt: skip
    probe = ClusterProbe(target.bootstrap)
    try:
        wait_until(lambda: probe.in_sync("full"), "all copies are in sync")
        victim = probe.leader("full")
        target.kill(victim)
        wait_until(lambda: victim not in probe.registered(), "its death is known")
        began = time.perf_counter()
        target.restart(victim)
        wait_until(lambda: victim in probe.registered(), "it may lead again")
        return time.perf_counter() - began
    finally:
        probe.close()

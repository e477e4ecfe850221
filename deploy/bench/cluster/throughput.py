"""What three copies cost: records and bytes per second, acknowledgements, memory.

In: a running cluster. Out: figures by name. Never: a fault; those are in `count_faults`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence

from deploy.bench.cluster.load_client import run
from deploy.bench.cluster.size import Size
from deploy.bench.cluster.targets import ClusterTarget, memory_mb

WARM_UP = "warm-up"
SETTLE_S = 2.0  # after the warm-up: write-back, the compiler's threads
MB = 1_000_000
BATCHES = {"cluster-single": "1", "cluster-batches": "16", "cluster-default": "0"}
ACK = ("cluster-ack-p50", "cluster-ack-p99")
MEMORY = "cluster-memory"
NAMES = (*BATCHES, *ACK, MEMORY)


def measure(target: ClusterTarget, names: Sequence[str], size: Size) -> Iterator[tuple[str, float]]:
    """The chosen figures on one cluster, in this order; memory after all that traffic."""
    seconds = ("--seconds", f"{size.seconds:g}")
    create(target, WARM_UP)
    for batch in BATCHES.values():
        run(target, "produce", "--topic", WARM_UP, "--batch", batch, *seconds)
    os.sync()
    time.sleep(SETTLE_S)
    if set(names) & set(ACK):
        create(target, "idle")
        times = run(target, "acknowledge", "--topic", "idle", *seconds)
        yield from ((name, times[name.rpartition("-")[2]]) for name in ACK if name in names)
    for name, batch in BATCHES.items():
        if name in names or MEMORY in names:
            create(target, name)
            answer = run(target, "produce", "--topic", name, "--batch", batch, *seconds)
            unit = answer["records_per_s"] if batch == "1" else answer["bytes_per_s"] / MB
            if name in names:
                yield name, unit
    if MEMORY in names:
        yield MEMORY, memory_mb(target)


def create(target: ClusterTarget, topic: str, partitions: int = 4) -> None:
    """A topic with the brokers' default of three copies."""
    run(target, "create", "--topic", topic, "--replication", "-1", "--partitions", str(partitions))

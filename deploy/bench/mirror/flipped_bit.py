"""How long a bit that flips on the second site's disk stays unnamed.

In: two clusters of ours, records of this hour at both. Out: seconds. The mirror that must name it
began after they had been copied, by another one. Never: a time the test chose: the bit flips at any
moment of the mirror's interval.
"""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bus.client.model import TopicPartition
from bus.contracts.mirror_status import MirrorStatus
from bus.records.batch import iter_batches
from deploy.bench.mirror.bench_mirror import (
    NONE,
    OURS,
    PARTITIONS,
    TOPIC,
    WAIT_S,
    BrokerPair,
    MirroringRun,
    end,
    load,
    mirroring,
    pair_of_ours,
)
from deploy.bench.mirror.mirror_load import records_in
from deploy.errors import OperatorError
from dr_mirror.settings import MirrorSettings
from dr_mirror.status.status_file import StatusUnavailable, read_status

WARM_S = 10
RECORDS = 300_000
"""Many blocks in each partition, all of this hour."""
POLL_S = 0.1
HEADER_BYTES = 61
"""Of a batch; behind it are its records."""


def named_s() -> dict[str, float]:
    """From the flip until the mirror's status names the partition."""
    with mirroring(OURS, pair_of_ours, warm_s=WARM_S) as run:
        load("produce", run.pair, TOPIC, RECORDS, 0)
        _wait(lambda: _is_copied(run.pair), "all is copied")
        end(run.process)
        with _fresh_mirror(run) as folder:
            interval_s = MirrorSettings(source_bootstrap_servers="A").proof_interval_s
            _wait(lambda: _is_compared(folder), "the mirror has compared something")
            time.sleep(random.uniform(0, interval_s))
            place = _flip(run.pair)
            begin = time.perf_counter()
            _wait(lambda: place in _differing(folder), "the flipped bit is named")
            return {"flipped": time.perf_counter() - begin}


@contextmanager
def _fresh_mirror(run: MirroringRun) -> Iterator[Path]:
    """Another mirror that knows nothing of the first; its folder."""
    folder = run.folder.with_name("anew")
    process: subprocess.Popen[bytes] = OURS.start(folder, run.pair, NONE)
    try:
        yield folder
    finally:
        end(process)


def _is_copied(pair: BrokerPair) -> bool:
    return records_in(pair.source, TOPIC) == records_in(pair.target, TOPIC)


def _flip(pair: BrokerPair) -> TopicPartition:
    """One bit of a record in the newer half of a partition, on the disk of the second site."""
    place = TopicPartition(TOPIC, random.randrange(PARTITIONS))
    [broker] = pair.clusters[1].plan.values()
    name = f"{place.topic}-{place.partition}"
    path = max(broker.directory.rglob(f"{name}/*.log"))
    found = [(at, header.size_bytes) for at, header in iter_batches(memoryview(path.read_bytes()))]
    at, size = random.choice(found[len(found) // 2 :])
    with path.open("r+b") as file:
        file.seek(at + random.randrange(HEADER_BYTES, size))
        [stored] = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([stored ^ (1 << random.randrange(8))]))
    return place


def _status(folder: Path) -> MirrorStatus | None:
    try:
        return read_status(folder / "mirror" / "status.json")
    except StatusUnavailable:
        return None


def _is_compared(folder: Path) -> bool:
    found = _status(folder)
    return found is not None and any(one.blocks for one in found.proof.topics if one.topic == TOPIC)


def _differing(folder: Path) -> set[TopicPartition]:
    found = _status(folder)
    differences = found.proof.differences if found is not None else ()
    return {TopicPartition(one.topic, one.partition) for one in differences}


def _wait(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        if time.monotonic() > deadline:
            raise OperatorError(f"not within {WAIT_S:g} s: {what}")
        time.sleep(POLL_S)

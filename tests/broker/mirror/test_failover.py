"""A mirror writes while the leaders it writes to are killed: nothing is lost, doubled or moved."""

from __future__ import annotations

import random
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bus.client.admin import commands, queries
from bus.client.wire.sync_client import SyncClient
from bus.errors import BusError, ErrorCode
from bus.records.batch import assign, header_at, iter_batches
from bus.records.build import build_batch
from bus.records.control import end_txn_marker
from bus.records.record import Record
from deploy.servers.databus_cluster import KRAFT, ZOOKEEPER, RunningCluster, start_cluster
from tests.broker.mirror.client import create_mirrored, error_of, leader_of, mirror, truncate

TOPIC = "copied"
NOW_MS = time.time_ns() // 1_000_000
BATCHES = 600
KILLS = 3
PER_REQUEST = 4
DEADLINE_S = 150.0
PRODUCER = 5 << 48
PROPERTIES = {
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "3000",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "200",
    "zookeeper.session.timeout.ms": "3000",
}


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[RunningCluster]:
    """Three brokers, each with a listener for a mirror."""
    memory = Path("/dev/shm")
    directory = tempfile.mkdtemp(dir=memory if memory.is_dir() else None)
    more: dict[str, Any] = {}
    if request.param == ZOOKEEPER:
        place = request.getfixturevalue("zookeeper").address
        more["zookeeper_connect"] = f"{place}/mirror-{random.randrange(1 << 40)}"
    with start_cluster(
        directory, 3, request.param, PROPERTIES, mirror_listener=True, **more
    ) as running:
        yield running
    shutil.rmtree(directory, ignore_errors=True)


def source(dice: random.Random) -> list[bytes]:
    """Batches as another cluster has them: holes, an idempotent producer, transactions."""
    found, offset, sequence = [], dice.randrange(5), 0
    for number in range(BATCHES):
        count = dice.randrange(1, 6)
        records = [Record(b"k", dice.randbytes(20), timestamp_ms=NOW_MS) for _ in range(count)]
        kind = dice.randrange(4)
        if kind == 3 and number:
            batch = end_txn_marker(
                commit=dice.random() < 0.5, producer_id=PRODUCER + 1, producer_epoch=0,
                coordinator_epoch=0, timestamp_ms=NOW_MS,
            )  # fmt: skip
            count = 1
        elif kind == 2:
            batch = build_batch(records, producer_id=PRODUCER + 1, producer_epoch=0,
                                base_sequence=0, is_transactional=True)  # fmt: skip
        elif kind == 1:
            batch = build_batch(
                records, producer_id=PRODUCER, producer_epoch=0, base_sequence=sequence
            )
            sequence += count
        else:
            batch = build_batch(records)
        assign(batch, 0, offset, 0)
        found.append(bytes(batch))
        offset += count + (dice.randrange(1, 50) if dice.random() < 0.2 else 0)
    return found


@dataclass
class Copier:
    """The loop of a mirror: claim, continue where the target's log ends, claim again after any
    refusal. It remembers nothing of what it has sent."""

    client: SyncClient
    batches: list[bytes]
    generation: int = 1
    deadline: float = 0.0
    claims: int = 0

    def claim(self) -> tuple[int, int]:
        """(log end, leader epoch) at the present leader."""
        while True:
            assert time.monotonic() < self.deadline, "no leader takes the claim"
            with suppress(BusError):
                answer = mirror(self.client, TOPIC, generation=self.generation)
                if not answer.error_code:
                    self.claims += 1
                    return answer.log_end_offset, answer.leader_epoch
            time.sleep(0.05)

    def copy(self) -> Iterator[int]:
        """The confirmed offset after each request that was answered without an error."""
        end, epoch = self.claim()
        while True:
            left = [one for one in self.batches if header_at(one).base_offset >= end]
            if not left:
                return
            try:
                answer = mirror(
                    self.client, TOPIC, b"".join(left[:PER_REQUEST]), base_offset=end,
                    generation=self.generation, epoch=epoch,
                )  # fmt: skip
            except BusError:
                end, epoch = self.claim()
                continue
            if error_of(answer) is not ErrorCode.NONE:
                end, epoch = self.claim()
                continue
            end = answer.log_end_offset
            assert answer.high_watermark >= header_at(left[:PER_REQUEST][-1]).end_offset
            yield answer.high_watermark


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "cluster", [KRAFT, pytest.param(ZOOKEEPER, marks=pytest.mark.java)], indirect=True
)
def test_every_replica_has_the_sources_bytes_after_leaders_were_killed(
    cluster: RunningCluster, dice: random.Random
) -> None:
    """kill -9 in the middle of appends. What was confirmed is never below the end afterwards."""
    batches = source(dice)
    kill_at = sorted(dice.sample(range(5, BATCHES // PER_REQUEST - 5), KILLS))
    with SyncClient(cluster.mirror_bootstrap, "mirror") as client:
        create_mirrored(client, TOPIC, replicas=3)
        copier = Copier(client, batches, deadline=time.monotonic() + DEADLINE_S)
        killers: list[threading.Timer] = []
        dead: list[int] = []
        for number, confirmed in enumerate(copier.copy()):
            if kill_at and number >= kill_at[0]:
                del kill_at[0]
                for node in dead:
                    cluster.restart(node)
                _until_all_in_sync(client, copier.deadline)
                dead = [leader_of(client, TOPIC)]
                killers.append(threading.Timer(dice.uniform(0, 0.02), cluster.kill, dead))
                killers[-1].start()
            assert confirmed >= 0
        for killer in killers:
            killer.join()
        for node in dead:
            cluster.restart(node)
        _until_all_in_sync(client, copier.deadline)
        assert copier.claims > 1
        _cut_and_copy_again(copier, batches, dice)
        with pytest.raises(BusError) as caught:
            commands.delete_topic(client, TOPIC)
        assert caught.value.code is ErrorCode.POLICY_VIOLATION
    cluster.stop()
    expected = b"".join(batches)
    for node in cluster.nodes.values():
        assert on_disk(node.data_dir) == expected, f"node {node.node_id}"


def _cut_and_copy_again(copier: Copier, batches: list[bytes], dice: random.Random) -> None:
    """The way back: the tail is cut off on every replica, a claim is taken when it is, and what
    follows on the common part is copied."""
    end, epoch = copier.claim()
    kept = header_at(dice.choice(batches[-100:-1])).end_offset
    cut = truncate(
        copier.client, TOPIC, kept, end=end, epoch=epoch, generation=copier.generation
    )
    assert (cut.error_code, cut.log_end_offset <= kept) == (0, True)
    assert copier.claim()[0] == cut.log_end_offset
    assert list(copier.copy())


def _until_all_in_sync(client: SyncClient, deadline: float) -> None:
    while True:
        with suppress(BusError):
            if len(queries.topics(client, [TOPIC])[0].partitions[0].isr) == 3:
                return
        assert time.monotonic() < deadline, "a replica does not come back"
        time.sleep(0.1)


def on_disk(data_dir: Path) -> bytes:
    """The batches of a replica in its files, leader epochs as 0."""
    found = bytearray()
    for path in sorted((data_dir / "logs").rglob(f"{TOPIC}-0/*.log")):
        found += path.read_bytes()
    for at, header in list(iter_batches(found)):
        assign(found, at, header.base_offset, 0)
    return bytes(found)

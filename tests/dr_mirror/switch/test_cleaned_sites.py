"""Two sites that clean a compacted topic independently: they have the same last values, always."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from broker.config.views import TopicConfig
from broker.disk.real import RealDisk
from broker.log.log import Log
from bus.records.read import read_records
from deploy.servers.databus_cluster import RunningCluster
from tests.broker.log.cleaned_log import NOW_MS, clean_all
from tests.dr_mirror.copy.test_copying import create
from tests.dr_mirror.switch.test_switch import Sites, both_sites
from tests.dr_mirror.two_sites import wait_until

TABLE = "data.table"
Values = dict[bytes, bytes | None]


def send(cluster: RunningCluster, *rows: tuple[str, str | None]) -> None:
    """Each in a batch of its own."""
    failed: list[bool] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "message.timeout.ms": 30_000})
    for key, value in rows:
        producer.produce(
            TABLE, value, key, partition=0,
            on_delivery=lambda error, _: failed.append(error is not None),
        )  # fmt: skip
        producer.flush(30)
    assert failed == [False] * len(rows)


def clean_stopped(folder: Path) -> int:
    """What a cleaner makes of the table's log, all of it closed; how many batches went."""
    [directory] = folder.rglob(f"{TABLE}-0")
    config = replace(TopicConfig(), compacted=True, deletes=False)
    log = Log(str(directory), disk=RealDisk(), config=config, now_ms=NOW_MS)
    log.roll(NOW_MS)
    log.flush()
    gone = clean_all(log, RealDisk())
    log.close()
    return gone


def values(sites: Sites, name: str) -> Values:
    """The last value of each key, as a consumer sees it."""
    found: Values = {}
    for _, _, raw in sites.readers[name].batches(TABLE, 0):
        for record in read_records(raw[:12] + bytes(4) + raw[12:]):
            found[bytes(record.key or b"")] = None if record.value is None else bytes(record.value)
    return {key: value for key, value in found.items() if value is not None}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_after_a_kill_a_switch_and_the_way_back_cleaned_sites_have_the_same_last_values(
    tmp_path: Path,
) -> None:
    """A's cleaner has removed what A's own last records superseded. On the way back these are cut
    off: the keys had no value at A any more, while the primary had one."""
    with both_sites(tmp_path) as sites:
        a, b = sites.clusters["A"], sites.clusters["B"]
        create(a, TABLE, cleanup_policy="compact")
        send(a, ("k1", "1"), ("k2", "1"), ("k3", "1"), ("k1", "2"), ("k3", None))
        sites.wait_until_copying("A")
        sites.mirror.kill()
        send(a, ("k1", "only A"), ("k2", None), ("k4", "only A"))
        a.kill(1)
        assert clean_stopped(tmp_path / "a") > 0
        b.kill(1)
        assert clean_stopped(tmp_path / "b") > 0
        b.restart(1)
        sites.mirror.start()
        forced = sites.switch("B", "--force")
        assert forced.returncode == 0, forced.stdout + forced.stderr
        assert values(sites, "B") == {b"k1": b"2", b"k2": b"1"}
        send(b, ("k5", "1"), ("k5", "2"))
        a.restart(1)
        wait_until(lambda: sites.switch("", "--back").returncode == 0, "the way back", 60)
        sites.wait_until_copying("B")
        assert values(sites, "A") == values(sites, "B") == {b"k1": b"2", b"k2": b"1", b"k5": b"2"}
        home = sites.switch("A")
        assert home.returncode == 0, home.stdout + home.stderr
        send(a, ("k5", None))
        sites.wait_until_copying("A")
        assert values(sites, "A") == values(sites, "B") == {b"k1": b"2", b"k2": b"1"}
        told = sites.mirror.command("verify", "--topic", TABLE, "--json")
        assert told.returncode == 0, told.stdout + told.stderr
        assert json.loads(told.stdout)

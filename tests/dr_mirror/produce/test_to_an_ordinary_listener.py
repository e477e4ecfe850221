"""Our broker as a target without a listener for mirrors: ordinary appends, at least once."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from bus.records.read import read_records
from deploy.servers.databus_cluster import start_cluster
from tests.dr_mirror.copy.test_copying import SendingCity, create
from tests.dr_mirror.two_sites import (
    SOURCE_PROPERTIES,
    MirrorProcess,
    SiteReader,
    start_target,
    wait_until,
)

TOPIC, PARTITIONS = "data.vehicle", 4
KILLS = 2


def values_of(reader: SiteReader, partition: int) -> list[bytes | None]:
    """Every record of a partition, in order."""
    found: list[bytes | None] = []
    for _, _, raw in reader.batches(TOPIC, partition):
        batch = raw[:12] + bytes(4) + raw[12:]
        found += [bytes(each.value or b"") for each in read_records(batch)]
    return found


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_after_kills_of_the_mirror_no_record_is_missing_and_only_the_last_ones_come_twice(
    tmp_path: Path, dice: random.Random
):
    """What comes twice comes again in its order, as a piece that begins behind a position."""
    source = start_cluster(tmp_path / "a", brokers=1, properties=SOURCE_PROPERTIES)
    target = start_target(tmp_path / "b")
    settings = {"mirror.target_api": "produce"}
    mirror = MirrorProcess(tmp_path / "m", source.bootstrap, target.bootstrap, settings).start()
    at_a, at_b = SiteReader(source.bootstrap), SiteReader(target.bootstrap)
    try:
        create(source, TOPIC, PARTITIONS)
        city = SendingCity(source.bootstrap, TOPIC, PARTITIONS, dice)
        try:
            for _ in range(KILLS):
                wait_until(lambda: is_copied_beyond(at_b, 0), "records come")
                city.wait_for_more(200)
                time.sleep(dice.random() * 0.3)  # the moment of the kill is what is drawn
                mirror.kill()
                mirror.start()
        finally:
            city.stop()
        for partition in range(PARTITIONS):
            wanted = values_of(at_a, partition)
            wait_until(
                lambda at=partition, last=wanted[-1]: last in values_of(at_b, at),
                "the last one is there",
            )
            assert list(dict.fromkeys(values_of(at_b, partition))) == list(dict.fromkeys(wanted))
    finally:
        mirror.kill()
        source.kill(1)
        target.kill(1)


def is_copied_beyond(reader: SiteReader, offset: int) -> bool:
    return reader.ends(TOPIC, 0)[1] > offset

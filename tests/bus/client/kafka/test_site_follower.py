"""A sender of its own that knows both sites moves to the one that takes records."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bus.client.admin import commands
from bus.client.admin.config_resources import BROKER, TOPIC, AlterConfigOp
from bus.client.kafka.admin import Admin
from bus.client.kafka.site_follower import SendProgress, SiteFollower
from bus.client.wire.sync_client import SyncClient
from bus.contracts.mirror import SOURCE_CLUSTER_KEY
from bus.contracts.site_confirmation import TARGET_CLUSTER_KEY
from bus.contracts.site_epoch import SITE_EPOCH_KEY, EpochKind, SiteEpoch
from bus.settings import BusSettings
from deploy.servers.databus import RunningBroker, start_broker

SENT_TO = "data.vehicle"
WITHIN_S = 30.0


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[tuple[RunningBroker, RunningBroker]]:
    both = start_broker(tmp_path / "a"), start_broker(tmp_path / "b")
    yield both
    for each in both:
        each.kill()


def bus_of(broker: RunningBroker) -> BusSettings:
    return BusSettings(bootstrap_servers=broker.bootstrap)


def until(holds: object, what: str) -> None:
    assert callable(holds)
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@pytest.mark.slow
def test_a_sender_moves_once_the_other_site_was_opened_and_not_because_its_own_is_silent(
    sites: tuple[RunningBroker, RunningBroker],
):
    """And not while its records are acknowledged."""
    home, second = sites
    with closing(Admin(bus_of(home), client_id="test")) as admin:
        home_id = admin.describe_cluster()[0].cluster_id
    with SyncClient(second.bootstrap, "test") as client:
        commands.create_topic(
            client, SENT_TO, partitions=1, configs={SOURCE_CLUSTER_KEY: home_id}
        )
    asked, moved = threading.Semaphore(0), threading.Event()
    sender = [SendProgress(0, 0)]

    def progress() -> SendProgress:
        asked.release()
        return sender[0]

    told: list[BusSettings] = []

    def on_move(to: BusSettings) -> None:
        told.append(to)
        moved.set()

    follower = SiteFollower(
        bus_of(home), bus_of(second), [SENT_TO], progress, on_move, move_after_s=0.2
    )
    follower.start()
    try:
        until(lambda: len(follower._cluster_ids) == 2, "both sites are known")
        home.kill()
        sender[0] = SendProgress(5, 10)
        for _ in range(8):  # looks at a site that is silent, and at a mirror of it
            assert asked.acquire(timeout=WITHIN_S)
        assert not told
        changes = [
            (SOURCE_CLUSTER_KEY, AlterConfigOp.DELETE, None),
            (TARGET_CLUSTER_KEY, AlterConfigOp.SET, home_id),
        ]
        switched = SiteEpoch(1, EpochKind.FORCED, second.cluster_id, home_id, 1, "somebody@desk")
        with SyncClient(second.bootstrap, "test") as client:
            commands.alter_configs(client, {
                (BROKER, ""): [(SITE_EPOCH_KEY, AlterConfigOp.SET, switched.text)],
                (TOPIC, SENT_TO): changes,
            })  # fmt: skip
        assert moved.wait(WITHIN_S)
        assert [each.bootstrap_servers for each in told] == [second.bootstrap]
        sender[0] = SendProgress(15, 0)
        for _ in range(4):
            assert asked.acquire(timeout=WITHIN_S)
        assert len(told) == 1, "nothing waits there"
    finally:
        follower.stop()

"""A driver hears that its logs were cut, and ends so that the next one begins at the cut."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bus.client.admin import commands
from bus.client.admin.config_resources import TOPIC, AlterConfigOp
from bus.client.kafka.admin import Admin
from bus.client.wire.sync_client import SyncClient
from bus.contracts.mirror_truncations import TRUNCATIONS_KEY, LogTruncation, TopicTruncations
from bus.contracts.topics import DATA_FACE, DATA_VEHICLE, TOPICS
from bus.settings import BusSettings
from deploy.servers.databus import RunningBroker, start_broker
from spark_apps.source import truncations as cuts
from spark_apps.source.truncations import LogsTruncated, TruncationWatcher

BOTH = (DATA_VEHICLE, DATA_FACE)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    running = start_broker(tmp_path / "broker")
    admin = Admin(BusSettings(bootstrap_servers=running.bootstrap), client_id="test")
    admin.ensure_topics([TOPICS[name] for name in BOTH])
    admin.close()
    yield running
    running.stop()


def say(broker: RunningBroker, topic: str, text: str) -> None:
    with SyncClient(broker.bootstrap, "test") as client:
        change = [(TRUNCATIONS_KEY, AlterConfigOp.SET, text)]
        commands.alter_configs(client, {(TOPIC, topic): change})


@pytest.mark.slow
def test_a_cut_since_the_start_ends_the_driver_and_one_before_is_known(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(cuts, "EVERY_S", 0.0)
    bus = BusSettings(bootstrap_servers=broker.bootstrap)
    say(broker, DATA_FACE, "7:0=10-30")
    watch = TruncationWatcher(bus, BOTH)
    assert watch.known == {DATA_FACE: (TopicTruncations(7, {0: LogTruncation(10, 30)}),)}
    watch.check()
    say(broker, DATA_VEHICLE, "7~:1=5-6")
    with pytest.raises(LogsTruncated, match=r"data\.vehicle were cut"):
        watch.check()
    watch.close()


@pytest.mark.slow
def test_what_is_no_cut_and_a_bus_that_is_away_keep_a_driver_as_it_is(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(cuts, "EVERY_S", 0.0)
    monkeypatch.setattr(cuts, "TIMEOUT_S", 1.0)
    say(broker, DATA_VEHICLE, "somebody's hand")
    watch = TruncationWatcher(BusSettings(bootstrap_servers=broker.bootstrap), BOTH)
    assert watch.known == {}
    broker.kill()
    watch.check()
    watch.close()

"""What a cluster says that it holds of another one."""

from __future__ import annotations

from contextlib import closing

import pytest

from bus.client.admin import commands
from bus.client.kafka.admin import Admin
from bus.client.kafka.mirrored_ends import mirrored_ends
from bus.client.wire.sync_client import SyncClient
from bus.contracts.mirror import SOURCE_CLUSTER_KEY
from bus.contracts.site_confirmation import TARGET_CLUSTER_KEY
from bus.settings import BusSettings

LOST = "the-lost-cluster-22-chr"


def create(bus: BusSettings, topic: str, **keys: str) -> None:
    with closing(Admin(bus, client_id="test")) as admin:
        admin.wait_until_up(20)
    with SyncClient.of(bus, "test") as client:
        commands.create_topic(client, topic, partitions=2, configs=keys)


@pytest.mark.parametrize(
    ("name", "key", "is_taken_over"),
    [
        ("ends.opened", TARGET_CLUSTER_KEY, True),
        ("ends.mirror", SOURCE_CLUSTER_KEY, False),
        ("ends.own", "", False),
    ],
)
def test_a_topic_that_a_switch_has_opened_is_taken_over_though_nothing_was_confirmed(
    bus: BusSettings, name: str, key: str, is_taken_over: bool
):
    """Found by simulation: the mirror had not come to say what it had copied, so an edge of the lost
    site never moved. Nothing is known to be held then: all that is kept is sent again."""
    create(bus, name, **({key: LOST} if key else {}))
    found = mirrored_ends(bus, LOST)
    assert found.is_taken_over({name}) is is_taken_over
    held = {one.partition: one.end for one in found.partitions if one.topic == name}
    assert held == ({0: 0, 1: 0} if key else {})

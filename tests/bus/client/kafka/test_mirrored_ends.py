"""What a cluster says that it holds of another one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from bus.client.admin import commands, site_keys
from bus.client.admin.config_resources import BROKER, AlterConfigOp
from bus.client.kafka.admin import Admin
from bus.client.kafka.mirrored_ends import MirroredEnds, mirrored_ends
from bus.client.kafka.producer import Producer
from bus.client.wire.sync_client import SyncClient
from bus.contracts.mirror import SOURCE_CLUSTER_KEY, MirrorConfirmed
from bus.contracts.site_confirmation import (
    TARGET_CLUSTER_KEY,
    ConfirmedBy,
    SiteConfirmation,
)
from bus.contracts.site_epoch import SITE_EPOCH_KEY, EpochKind, SiteEpoch
from bus.contracts.topics import CONTROL_MIRROR_CONFIRMED, TOPICS
from bus.errors import BusError, ErrorCode
from bus.settings import BusSettings
from deploy.servers.databus import RunningBroker, start_broker

LOST = "the-lost-cluster-22-chr"
NOBODY, ITSELF, THE_OTHER = "nobody", "itself", "the other site"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[RunningBroker]:
    """A cluster of its own: its site epoch is no other test's."""
    broker = start_broker(tmp_path / "site")
    yield broker
    broker.kill()


def create(bus: BusSettings, topic: str, keys: dict[str, str]) -> None:
    with closing(Admin(bus, client_id="test")) as admin:
        admin.wait_until_up(20)
    with SyncClient.of(bus, "test") as client:
        commands.create_topic(client, topic, partitions=2, configs=keys)


def take_epoch(site: RunningBroker, primary: str, number: int) -> None:
    """As a switch gives it to the new primary, and the mirror to the former one."""
    if primary == NOBODY:
        return
    both = (site.cluster_id, LOST) if primary == ITSELF else (LOST, site.cluster_id)
    epoch = SiteEpoch(number, EpochKind.FORCED, *both, 1, "somebody@desk")
    with SyncClient(site.bootstrap, "test") as client:
        commands.alter_configs(
            client, {(BROKER, ""): [(SITE_EPOCH_KEY, AlterConfigOp.SET, epoch.text)]}
        )


def say_confirmed(bus: BusSettings, site: RunningBroker, topic: str, offset: int) -> None:
    """As a mirror that copies from the other site has said it here."""
    with closing(Admin(bus, client_id="test")) as admin:
        admin.ensure_topics([TOPICS[CONTROL_MIRROR_CONFIRMED]])
    producer = Producer(bus, client_id="test")
    for partition in (0, 1):
        said = MirrorConfirmed(
            source_cluster_id=LOST, target_cluster_id=site.cluster_id, topic=topic,
            partition=partition, offset=offset, generation=1, at_ms=1,
        )  # fmt: skip
        producer.send(CONTROL_MIRROR_CONFIRMED, msgspec.json.encode(said), key=said.key)
    assert producer.close() == 0


def held(found: MirroredEnds, topic: str) -> dict[int, int]:
    return {one.partition: one.end for one in found.partitions if one.topic == topic}


TOPICS_OF_SITE = {
    "marked": {TARGET_CLUSTER_KEY: LOST},
    "marked.once.mirror": {TARGET_CLUSTER_KEY: LOST},
    "freed": {},
    "mirror": {SOURCE_CLUSTER_KEY: LOST},
    "own": {},
}
TAKEN_OVER = {
    NOBODY: {"marked.once.mirror", "freed"},
    THE_OTHER: set(),
    ITSELF: {"marked", "marked.once.mirror", "freed"},
}


@pytest.mark.slow
def test_a_site_has_taken_over_by_its_site_epoch_not_by_the_mark_of_what_is_copied(
    site: RunningBroker,
):
    """A switch marks what it opens, and the mirror what it copies. Found by simulation, twice: an
    edge of a lost site never moved, as the mirror had not come to say what it had copied; and one
    that had moved went back to the former primary, which was up again and took nothing (seed 168).
    What is freed by hand, before there is a site epoch, counts as ever."""
    bus = BusSettings(bootstrap_servers=site.bootstrap)
    for topic, keys in TOPICS_OF_SITE.items():
        create(bus, topic, keys)
    for topic in ("marked.once.mirror", "freed"):
        say_confirmed(bus, site, topic, 7)
    for number, (primary, expected) in enumerate(TAKEN_OVER.items()):
        take_epoch(site, primary, number)
        found = mirrored_ends(bus, LOST)
        taken_over = {topic for topic in TOPICS_OF_SITE if found.is_taken_over({topic})}
        assert taken_over == expected, primary
        assert {topic: held(found, topic) for topic in TOPICS_OF_SITE} == {
            "marked": {0: 0, 1: 0} if primary == ITSELF else {},  # 0: all that is kept is sent again
            "marked.once.mirror": {0: 7, 1: 7},
            "freed": {0: 7, 1: 7},
            "mirror": {0: 0, 1: 0},
            "own": {},
        }, primary


@pytest.mark.slow
def test_a_site_that_waits_for_a_confirmation_has_not_taken_over(site: RunningBroker):
    """It was down as a whole: the site epoch that it holds may be outdated."""
    bus = BusSettings(bootstrap_servers=site.bootstrap)
    create(bus, "copied", {TARGET_CLUSTER_KEY: LOST})
    take_epoch(site, ITSELF, 1)
    said = SiteConfirmation(1, ConfirmedBy.MIRROR, 5, "carl@desk", "both were asked")
    with SyncClient(site.bootstrap, "test") as client:
        site_keys.confirm(client, said)
    assert mirrored_ends(bus, LOST).is_taken_over({"copied"})
    site.kill()
    again = site.restart()
    try:
        assert not mirrored_ends(bus, LOST).is_taken_over({"copied"})
        with SyncClient(site.bootstrap, "test") as client:
            site_keys.confirm(client, said)
        assert mirrored_ends(bus, LOST).is_taken_over({"copied"})
    finally:
        again.kill()


@pytest.mark.slow
def test_brokers_that_do_not_say_their_site_epoch_are_judged_by_their_topics(
    site: RunningBroker, monkeypatch: pytest.MonkeyPatch
):
    """Apache Kafka's with an authorizer: they know no site epoch, but their topics may be freed."""

    def denied(_: SyncClient) -> site_keys.SiteKeys:
        raise BusError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "planted")

    monkeypatch.setattr(site_keys, "read", denied)
    bus = BusSettings(bootstrap_servers=site.bootstrap)
    create(bus, "copied", {})
    say_confirmed(bus, site, "copied", 7)
    assert mirrored_ends(bus, LOST).is_taken_over({"copied"})

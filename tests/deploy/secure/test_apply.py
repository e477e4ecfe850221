"""A broker puts users, rights and topics in force whenever it starts, on whatever data it finds."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest

from bus.client.admin import commands, queries, site_keys
from bus.client.admin.config_resources import BROKER, AlterConfigOp
from bus.client.kafka.consumer import BEGINNING, Consumer
from bus.client.kafka.errors import DeliveryError
from bus.client.kafka.producer import Producer
from bus.client.model import TopicPartition
from bus.client.wire.sync_client import SyncClient
from bus.contracts.access import all_acls
from bus.contracts.site_confirmation import SITE_CONFIRMATION_KEY, ConfirmedBy, SiteConfirmation
from bus.contracts.site_epoch import SITE_EPOCH_KEY, EpochKind, SiteEpoch
from bus.contracts.topics import CONTROL_WATCHLIST, DATA_FACE, TOPICS
from bus.errors import BusError, ErrorCode
from bus.settings import BusSettings
from deploy.secure.layout import IN_FORCE
from deploy.servers.process import free_port
from tests.secured_place import WAIT_S, BrokerPlace, new_folder, running

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
BEFORE = "kept.from.before"


@pytest.fixture
def place(tmp_path: Path) -> BrokerPlace:
    made = BrokerPlace(tmp_path / "data", free_port(), free_port())
    new_folder(made)
    return made


def topics_seen(bus: BusSettings) -> set[str]:
    with SyncClient.of(bus, "test") as client:
        return {topic.name for topic in queries.topics(client)}


def send(bus: BusSettings, topic: str) -> list[object]:
    """What became of one record: a report, or an error."""
    outcomes: list[object] = []
    producer = Producer(bus, client_id="test", overrides={"message.timeout.ms": int(WAIT_S * 1000)})
    producer.send(topic, b"{}", key="k", on_delivery=outcomes.append)
    assert not producer.close(WAIT_S), "neither taken nor refused"
    return outcomes


def read(bus: BusSettings, topic: str) -> None:
    """From its beginning, until there is a record. Raises BusError where it is refused."""
    deadline = time.monotonic() + WAIT_S
    with Consumer(bus, client_id="test") as consumer:
        consumer.assign({TopicPartition(topic, n): BEGINNING for n in range(TOPICS[topic].partitions)})
        while not consumer.poll(100, 0.2):
            assert time.monotonic() < deadline, "neither a record nor a refusal"


def test_data_that_were_open_are_closed_by_the_next_start_and_stay_so(place: BrokerPlace) -> None:
    is_open = place.settings(is_secured=False)
    with running(is_open, "broker 1 ready"), SyncClient.of(is_open.bus, "test") as client:
        commands.create_topic(client, BEFORE, partitions=1)
    operator = place.bus("operator")
    for _ in range(2):  # the first start closes it, the second one finds it closed and was killed
        with running(place.settings(), IN_FORCE):
            assert topics_seen(operator) == {BEFORE, *TOPICS}
            with SyncClient.of(operator, "test") as client:
                assert set(queries.acls(client)) == set(all_acls())
            with pytest.raises(BusError) as plain:
                topics_seen(is_open.bus)
            assert plain.value.code is ErrorCode.NETWORK_EXCEPTION
            wrong = {**operator.librdkafka, "sasl.password": "x"}
            with pytest.raises(BusError) as refused:
                topics_seen(msgspec.structs.replace(operator, librdkafka=wrong))
            assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED


def test_an_account_does_its_own_work_and_no_others(place: BrokerPlace) -> None:
    edge = place.bus("edge")
    with running(place.settings(), IN_FORCE):
        assert not [one for one in send(edge, DATA_FACE) if isinstance(one, Exception)]
        [refused] = send(edge, CONTROL_WATCHLIST)
        assert isinstance(refused, DeliveryError)
        assert "uthorization" in str(refused)
        with pytest.raises(BusError) as unread:
            read(edge, DATA_FACE)
        assert unread.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        read(place.bus("console"), DATA_FACE)
        assert CONTROL_WATCHLIST not in topics_seen(edge)


def test_a_folder_made_anew_counts_from_the_next_start_on(place: BrokerPlace) -> None:
    before = place.bus("console")
    with running(place.settings(), IN_FORCE):
        assert topics_seen(before)
    (place.folder / "secure").rename(place.folder / "former")
    new_folder(place)
    now = place.bus("console")
    with running(place.settings(), IN_FORCE):
        assert topics_seen(now)
        former_password = {**now.librdkafka, "sasl.password": before.librdkafka["sasl.password"]}
        with pytest.raises(BusError) as refused:
            topics_seen(msgspec.structs.replace(now, librdkafka=former_password))
        assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED


def test_an_edge_confirms_a_site_epoch_and_changes_nothing_else_of_the_cluster(place: BrokerPlace) -> None:
    """Whoever may alter a cluster's configuration could open it, or make another site the primary."""
    confirmation = SiteConfirmation(0, ConfirmedBy.EDGE, 1, "edge-1", "both sites were asked")
    epoch = SiteEpoch(1, EpochKind.FORCED, "cluster-b", "cluster-a", 1, "edge-1")
    with running(place.settings(), IN_FORCE), SyncClient.of(place.bus("edge"), "test") as edge:
        site_keys.confirm(edge, confirmation)
        assert site_keys.read(edge).confirmation == confirmation
        for key, operation, value in (
            (SITE_CONFIRMATION_KEY, AlterConfigOp.DELETE, None),
            (SITE_EPOCH_KEY, AlterConfigOp.SET, epoch.text),
            ("log.retention.ms", AlterConfigOp.SET, "1"),
        ):
            together = [(SITE_CONFIRMATION_KEY, AlterConfigOp.SET, confirmation.text), (key, operation, value)]
            for changes in ([(key, operation, value)], together[key == SITE_CONFIRMATION_KEY :]):
                with pytest.raises(BusError) as refused:
                    commands.alter_configs(edge, {(BROKER, site_keys.ALL_BROKERS): changes})
                assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED, key
        with SyncClient.of(place.bus("city"), "test") as city, pytest.raises(BusError) as not_an_edge:
            site_keys.confirm(city, confirmation)
        assert not_an_edge.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert site_keys.read(edge).epoch is None

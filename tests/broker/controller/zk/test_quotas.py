"""Quotas and credentials in the nodes of Kafka 3.9: content, writes by clients and manual
writes."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from broker.controller.decisions.quotas import QuotaChange, alter_quotas
from broker.controller.decisions.scram_credentials import (
    CredentialDeletion,
    CredentialUpsertion,
    alter_credentials,
)
from broker.controller.zk import znodes
from broker.controller.zk.quotas import decode_node, encode_node, entity_of, entity_path
from broker.metadata.image import QuotaEntity
from bus.errors import ErrorCode
from bus.protocol.quota_entities import CLIENT_ID, IP, USER
from tests.broker.controller.zk.simulated import SimulatedBroker, run_story, settled

RECORDED = (
    b'{"version":1,"config":{"SCRAM-SHA-256":"salt=YTJtdnV6dHowM2txYjNtaHFkYXcyY2I0dA==,'
    b"stored_key=+xddHCzaFObhH8X6WRd/JNEHD6x8ERJSk8WWFAm4z1U=,"
    b'server_key=VNussF71BfjNs/eTzBAuHnETtH2d5oAV+i3JuTvopwQ=,iterations=4096",'
    b'"producer_byte_rate":"1000000"}}'
)
"""What kafka-configs left in `/config/users/cam` of Kafka 3.9.1."""

PATHS: list[tuple[QuotaEntity, str]] = [
    (((USER, "cam"),), "users/cam"),
    (((USER, None),), "users/<default>"),
    (((USER, "<default>"),), "users/%3Cdefault%3E"),
    (((USER, "CN=a b*~/é"),), "users/CN%3Da%20b%2A%7E%2F%C3%A9"),
    (((CLIENT_ID, None),), "clients/<default>"),
    (((CLIENT_ID, "c.1"),), "clients/c.1"),
    (((CLIENT_ID, None), (USER, "u")), "users/u/clients/<default>"),
    (((CLIENT_ID, "c"), (USER, None)), "users/<default>/clients/c"),
    (((IP, "127.0.0.1"),), "ips/127.0.0.1"),
    (((IP, None),), "ips/<default>"),
]


@pytest.mark.parametrize(("entity", "path"), PATHS)
def test_an_entity_has_kafkas_path_and_is_found_by_it(entity: QuotaEntity, path: str) -> None:
    """Names are encoded as by Kafka's Sanitizer."""
    assert entity_path(entity) == path
    assert entity_of(path) == entity


@pytest.mark.parametrize("path", ["topics/t", "users", "users/u/what/c", "client-metrics/x"])
def test_other_kinds_are_no_entities_of_quotas(path: str) -> None:
    """Notifications about them are ignored."""
    assert entity_of(path) is None


def test_what_kafka_wrote_is_read_and_a_quota_written_beside_the_credential() -> None:
    """The credential's text stays exactly as it was."""
    entity: QuotaEntity = ((USER, "cam"),)
    node = decode_node("/config/users/cam", entity, RECORDED)
    assert node.quotas == {"producer_byte_rate": 1_000_000.0}
    assert [(one.name, one.mechanism, one.iterations) for one in node.credentials] == [
        ("cam", 1, 4096)
    ]
    assert node.faults == ()
    assert encode_node(node.quotas, node.other_keys) == RECORDED
    written = json.loads(encode_node({"request_percentage": 12.5}, node.other_keys))["config"]
    credentials = {"SCRAM-SHA-256": node.other_keys["SCRAM-SHA-256"]}
    assert written == credentials | {"request_percentage": "12.5"}


def test_what_makes_no_sense_is_named_and_kept() -> None:
    """Covers a damaged credential, a quota that is not a number and a node that is not JSON."""
    data = znodes.encode_config({"SCRAM-SHA-512": "salt=x", "producer_byte_rate": "much"})
    node = decode_node("/config/users/u", ((USER, "u"),), data)
    assert len(node.faults) == 2
    assert set(node.other_keys) == {"SCRAM-SHA-512", "producer_byte_rate"}
    assert not node.credentials
    broken = decode_node("/config/users/u", ((USER, "u"),), b"what")
    assert "/config/users/u" in broken.faults[0]


async def alter(party: SimulatedBroker, entity: QuotaEntity, **values: float | None) -> None:
    """The decision that the AlterClientQuotas handler requests."""
    change = QuotaChange(entity, tuple(values.items()))
    results = await party.write(lambda image: alter_quotas(image, [change]))
    assert [one.error for one in results] == [ErrorCode.NONE]


async def config(party: SimulatedBroker, path: str) -> dict[str, Any]:
    await settled()
    data, _ = await party.session.get(f"/config/{path}")
    found: dict[str, Any] = json.loads(data)["config"]
    return found


def test_quotas_of_clients_stand_in_their_nodes_and_every_broker_learns_them() -> None:
    """Sets, changes and removes a quota of each kind of entity; an empty node stays."""

    async def story(one: SimulatedBroker, two: SimulatedBroker) -> None:
        both: QuotaEntity = ((CLIENT_ID, "c"), (USER, "u"))
        await alter(one, both, producer_byte_rate=1000.0, request_percentage=50.0)
        await alter(one, both, producer_byte_rate=2000.0)
        await alter(one, ((CLIENT_ID, None),), consumer_byte_rate=7.0)
        await alter(one, ((IP, "10.0.0.1"),), connection_creation_rate=3.0)
        assert await config(one, "users/u/clients/c") == {
            "producer_byte_rate": "2000", "request_percentage": "50.0",
        }  # fmt: skip
        assert (await one.session.get("/config/users/u"))[0] == b""
        assert await config(one, "clients/<default>") == {"consumer_byte_rate": "7"}
        await two.read_change_notifications()
        assert two.image.client_quotas == one.controller.image.client_quotas
        assert set(two.image.client_quotas) == {both, ((CLIENT_ID, None),), ((IP, "10.0.0.1"),)}
        await alter(one, both, producer_byte_rate=None, request_percentage=None)
        assert await config(one, "users/u/clients/c") == {}
        await two.read_change_notifications()
        assert both not in two.image.client_quotas

    run_story(story)


def test_a_credential_stands_beside_the_quotas_and_every_broker_learns_it() -> None:
    """In Kafka's text; the other mechanism's and the quotas stay as they were, and so when it
    goes."""

    async def story(one: SimulatedBroker, two: SimulatedBroker) -> None:
        await two.session.create("/config/users/cam", RECORDED)
        await two.note("users/cam")
        for party in (one, two):
            await party.read_change_notifications()
        before = await config(one, "users/cam")
        added = CredentialUpsertion("cam", 2, 4096, b"salt", b"s" * 64)
        new = CredentialUpsertion("new", 1, 8192, b"salt", b"s" * 32)
        results = await one.write(lambda image: alter_credentials(image, [added, new]))
        assert results == (("cam", None), ("new", None))
        after = await config(one, "users/cam")
        text = after.pop("SCRAM-SHA-512")
        assert after == before
        assert re.fullmatch(
            "salt=c2FsdA==,stored_key=[^,]{88},server_key=[^,]{88},iterations=4096", text
        )
        assert set(await config(one, "users/new")) == {"SCRAM-SHA-256"}
        await two.read_change_notifications()
        assert two.image.scram == one.controller.image.scram
        assert set(two.image.scram) == {(1, "cam"), (2, "cam"), (1, "new")}
        gone = CredentialDeletion("cam", 2)
        await one.write(lambda image: alter_credentials(image, [gone]))
        assert await config(one, "users/cam") == before
        await two.read_change_notifications()
        assert set(two.image.scram) == {(1, "cam"), (1, "new")}

    run_story(story)


def test_what_a_tool_writes_is_taken_up_and_never_overwritten() -> None:
    """The controller's own write fails on the version if it has not read the notification yet."""

    async def story(one: SimulatedBroker, two: SimulatedBroker) -> None:
        await two.session.create("/config/users/cam", RECORDED)
        await two.note("users/cam")
        await alter(one, ((USER, "cam"),), consumer_byte_rate=5.0)
        found = await config(one, "users/cam")
        assert found["producer_byte_rate"] == "1000000"
        assert found["consumer_byte_rate"] == "5"
        assert found["SCRAM-SHA-256"].startswith("salt=")
        for party in (one, two):
            await party.read_change_notifications()
            assert party.image.client_quotas[((USER, "cam"),)]["consumer_byte_rate"] == 5.0
            assert (1, "cam") in party.image.scram
        await settled()
        assert (1, "cam") in one.controller.image.scram

    run_story(story)


def test_the_controller_takes_up_what_is_noted_before_anybody_asks_it() -> None:
    """A quota and a broker's configuration are written manually with notifications, then
    removed."""

    async def story(one: SimulatedBroker, two: SimulatedBroker) -> None:
        node = znodes.encode_config({"request_percentage": "20"})
        await two.session.create("/config/clients/c", node)
        await two.session.create(
            "/config/brokers/2", znodes.encode_config({"log.cleaner.threads": "2"})
        )
        await two.note("clients/c")
        await two.note("brokers/2")
        await settled()
        await one.read_change_notifications()
        await settled()
        image = one.controller.image
        assert image.client_quotas == {((CLIENT_ID, "c"),): {"request_percentage": 20.0}}
        assert list(image.configs.values()) == [{"log.cleaner.threads": "2"}]
        for path, entity in (("/config/clients/c", "clients/c"), ("/config/brokers/2", "brokers/2")):
            await two.session.delete(path)
            await two.note(entity)
        await settled()
        await one.read_change_notifications()
        await settled()
        assert not one.controller.image.client_quotas
        assert not one.controller.image.configs
        await alter(one, ((CLIENT_ID, "c"),), request_percentage=30.0)
        assert await config(one, "clients/c") == {"request_percentage": "30.0"}

    run_story(story)


def test_a_broker_that_was_away_reads_everything_that_stands_there_now() -> None:
    """It drops what was deleted meanwhile; a damaged node does not keep it from reading the
    others."""

    async def story(one: SimulatedBroker, two: SimulatedBroker) -> None:
        await alter(one, ((USER, "u"),), consumer_byte_rate=1.0)
        await settled()
        await two.member.read_configs()
        assert ((USER, "u"),) in two.image.client_quotas
        await one.session.delete("/config/users/u")
        await one.session.create("/config/users/cam", RECORDED)
        await one.session.create("/config/clients/broken", b"what")
        await settled()
        await two.member.read_configs()
        assert set(two.image.client_quotas) == {((USER, "cam"),)}
        assert set(two.image.scram) == {(1, "cam")}

    run_story(story)

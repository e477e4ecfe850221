"""A broker of a secured site has no plain listener, whatever its open settings were."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.config.views import BrokerConfig
from broker.security.security_protocol import SecurityProtocol
from broker.server.listeners import ListenerAddress, parse_listeners, with_protocols
from broker.server.roles import Roles, roles_of
from broker.settings import split
from deploy.cluster.layout import ControllerKind, plan
from deploy.secure.broker_keys import (
    ANONYMOUS,
    INTER_BROKER,
    PROTOCOL_MAP,
    ConversionStage,
    brokers_address,
    converted,
    secured,
    stage_of,
)
from deploy.secure.conversion import LEVELS

CLOSED = {SecurityProtocol.SSL, SecurityProtocol.SASL_SSL}


def of_cluster(kind: ControllerKind, brokers: int) -> list[dict[str, str]]:
    return [dict(node.properties) for node in plan(Path("/data"), brokers=brokers, controller=kind).nodes]


OPEN = [
    {},
    {"listeners": "PLAINTEXT://0.0.0.0:9092", "advertised.listeners": "PLAINTEXT://node:9092"},
    {"listeners": "PLAINTEXT://[::1]:9092,CONTROLLER://[::1]:9093"},
    *of_cluster(ControllerKind.KRAFT, 5),
    *of_cluster(ControllerKind.ZOOKEEPER, 3),
]


@pytest.mark.parametrize("broker", OPEN)
def test_every_listener_asks_who_is_there_over_tls(broker: dict[str, str]) -> None:
    keys = secured(broker)
    kafka, _ = split(keys)
    config = BrokerConfig.only_of_known(kafka)
    for name in ("listeners", "advertised.listeners"):
        texts = keys.get(name, "").split(",") if name in keys else []
        found = with_protocols(parse_listeners(texts), keys[PROTOCOL_MAP])
        assert {one.protocol for one in found} <= CLOSED
        ports = [one.port for one in found]
        assert len(set(ports)) == len(ports)
    assert config["inter.broker.listener.name"] == "BROKERS"
    assert brokers_address(keys)
    for name in ("brokers", "controller"):
        assert keys[f"listener.name.{name}.ssl.client.auth"] == "required"


@pytest.mark.parametrize("kind", ControllerKind)
def test_no_two_listeners_of_a_cluster_on_one_machine_meet(kind: ControllerKind) -> None:
    ports = [
        one.port
        for node in plan(Path("/data"), brokers=9, controller=kind).nodes
        for one in parse_listeners(secured(node.properties)["listeners"].split(","))
    ]
    metrics = [node.metrics_port for node in plan(Path("/data"), brokers=9, controller=kind).nodes]
    assert len({*ports, *metrics}) == len(ports) + len(metrics)


def test_a_listener_for_brokers_that_is_named_keeps_its_address() -> None:
    keys = secured({"listeners": "PLAINTEXT://127.0.0.1:9092,BROKERS://127.0.0.1:7777"})
    assert keys["listeners"] == "CLIENTS://127.0.0.1:9092,BROKERS://127.0.0.1:7777"
    assert brokers_address(keys) == "127.0.0.1:7777"


def test_who_has_named_the_protocols_of_the_listeners_keeps_them() -> None:
    own = {"listeners": "A://:1,B://:2", PROTOCOL_MAP: "A:SASL_SSL,B:SSL"}
    assert secured(own) == own


def test_sessions_end_within_the_hour_and_zookeeper_is_closed_unless_the_settings_say_otherwise() -> None:
    ensemble = {"zookeeper.connect": "z:2181", "zookeeper.ssl.keystore.location": "a.pem"}
    keys = secured(ensemble)
    assert keys["connections.max.reauth.ms"] == "3600000"
    assert keys["zookeeper.ssl.client.enable"] == keys["zookeeper.set.acl"] == "true"
    own = {**ensemble, "connections.max.reauth.ms": "60000", "zookeeper.ssl.client.enable": "false"}
    assert secured(own).items() >= own.items()
    assert not any(name.startswith("zookeeper.") for name in secured({"zookeeper.ssl.keystore.location": "a"}))


def test_a_broker_is_reached_on_this_machine_where_it_listens_everywhere() -> None:
    assert brokers_address(secured({"listeners": "PLAINTEXT://0.0.0.0:9092"})) == "127.0.0.1:9095"
    assert brokers_address({"listeners": "PLAINTEXT://0.0.0.0:9092"}) == ""


NODE = {"super.users": "User:CN=broker-1;User:operator"}
"""Of a node's file, as far as it matters here."""


def roles_at(broker: dict[str, str], stage: ConversionStage) -> Roles:
    kafka, _ = split(converted({**broker, **NODE}, stage))
    return roles_of(BrokerConfig.from_mapping(kafka))


@pytest.mark.parametrize("broker", [one for one in OPEN if "zookeeper.connect" not in one])
@pytest.mark.parametrize("stage", ConversionStage)
def test_on_the_way_a_broker_says_which_stage_it_is_at(broker: dict[str, str], stage: ConversionStage) -> None:
    assert LEVELS[stage_of(converted({**broker, **NODE}, stage))] == LEVELS[stage]


@pytest.mark.parametrize("broker", OPEN)
def test_both_ways_are_served_at_the_addresses_that_both_sides_know(broker: dict[str, str]) -> None:
    """Whoever was open, and whoever is closed, finds every listener of a broker in between."""
    for stage in (ConversionStage.BOTH, ConversionStage.BROKERS):
        found = {(one.name, one.host, one.port) for one in listeners_at(broker, stage)}
        for other in (ConversionStage.OPEN, ConversionStage.CLOSED):
            for one in listeners_at(broker, other):
                same = [n for n, host, port in found if (host, port) == (one.host, one.port)]
                assert len(same) == 2 or one.name == "BROKERS"
                assert one.name in same


def listeners_at(broker: dict[str, str], stage: ConversionStage) -> list[ListenerAddress]:
    text = converted({**broker, **NODE}, stage).get("listeners", "PLAINTEXT://127.0.0.1:9092")
    return parse_listeners(text.split(","))


@pytest.mark.parametrize("stage", [ConversionStage.BOTH, ConversionStage.BROKERS])
def test_nobody_is_held_up_and_nobody_is_exempt_from_quotas_on_the_way(stage: ConversionStage) -> None:
    """A plain listener that is named for brokers would be exempt, with every client of it."""
    [broker, *_] = of_cluster(ControllerKind.KRAFT, 3)
    keys = converted({**broker, **NODE}, stage)
    assert keys["super.users"].endswith(f";{ANONYMOUS}")
    assert keys.get(INTER_BROKER) != "PLAINTEXT"
    found = roles_at(broker, stage)
    assert found.peer_tls == (None if stage is ConversionStage.BOTH else "BROKERS")
    assert found.controller_tls == (None if stage is ConversionStage.BOTH else "CONTROLLER")


def test_a_closed_broker_has_nothing_of_the_way_there() -> None:
    for broker in OPEN:
        assert converted({**broker, **NODE}, ConversionStage.CLOSED) == secured({**broker, **NODE})
        assert converted(broker, ConversionStage.OPEN) == broker

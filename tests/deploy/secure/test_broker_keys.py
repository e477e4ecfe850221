"""A broker of a secured site has no plain listener, whatever its open settings were."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.config.views import BrokerConfig
from broker.security.security_protocol import SecurityProtocol
from broker.server.listeners import parse_listeners, with_protocols
from broker.settings import split
from deploy.cluster.layout import ControllerKind, plan
from deploy.secure.broker_keys import PROTOCOL_MAP, brokers_address, secured

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

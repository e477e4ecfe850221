"""Kafka's listener texts."""

from __future__ import annotations

import pytest

from broker.security.security_protocol import SecurityProtocol
from broker.server.listeners import (
    ListenerAddress,
    ListenerError,
    advertised,
    parse_listeners,
    with_protocols,
)

MAP = "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT"


def test_without_a_host_a_listener_is_this_machine_only() -> None:
    """Ours is stricter than Kafka's: nothing is open unless it is configured."""
    assert parse_listeners(["PLAINTEXT://:9092"])[0].host == "127.0.0.1"
    assert parse_listeners(["PLAINTEXT://[::1]:1"]) == [ListenerAddress("PLAINTEXT", "::1", 1)]


@pytest.mark.parametrize(
    "texts", [["9092"], ["PLAINTEXT://h"], ["PLAINTEXT://h:99999"], ["INSIDE://:1", "INSIDE://:2"]]
)
def test_what_is_no_listener_is_said_at_the_start(texts: list[str]) -> None:
    """In a sentence."""
    with pytest.raises(ListenerError):
        parse_listeners(texts)


@pytest.mark.parametrize("name", ["INSIDE", "CONTROLLER", "PLAINTEXT"])
def test_a_listener_has_the_protocol_of_the_map_or_of_its_name(name: str) -> None:
    """A server.properties of Kafka has the same map; a controller's listener need not be in it."""
    [found] = with_protocols(parse_listeners([f"{name}://:1"]), MAP.replace(",CONTROLLER", ",C"))
    assert found.protocol is SecurityProtocol.PLAINTEXT


@pytest.mark.parametrize("protocol", [*SecurityProtocol.__members__, "KERBEROS", ""])
def test_a_protocol_is_served_or_named_in_the_refusal(protocol: str) -> None:
    """All of Kafka's are served."""
    listeners = parse_listeners(["PLAINTEXT://:1", "OUTSIDE://:2"])
    text = f"PLAINTEXT:PLAINTEXT,OUTSIDE:{protocol}"
    if protocol in SecurityProtocol.__members__:
        found = with_protocols(listeners, text)
        assert [one.protocol.name for one in found] == ["PLAINTEXT", protocol]
    else:
        with pytest.raises(ListenerError, match=f"OUTSIDE asks for {protocol}, which is none of PLAINTEXT"):
            with_protocols(listeners, text)


def test_clients_are_told_what_is_advertised_else_where_we_are_bound() -> None:
    """Never 0.0.0.0, to which no client can connect."""
    bound = ListenerAddress("INSIDE", "0.0.0.0", 9092)
    assert advertised(bound, None).host == "127.0.0.1"
    told = advertised(bound, ["INSIDE://bus.example:19092"])
    assert (told.host, told.port) == ("bus.example", 19092)

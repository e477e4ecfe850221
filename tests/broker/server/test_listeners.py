"""Kafka's listener texts."""

from __future__ import annotations

import pytest

from broker.server.listeners import (
    ListenerAddress,
    ListenerError,
    advertised,
    broker_listeners,
    parse_listeners,
)

MAP = "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT"


def test_without_a_host_a_listener_is_this_machine_only() -> None:
    """Ours is stricter than Kafka's: nothing is open unless it is configured."""
    assert parse_listeners(["PLAINTEXT://:9092"])[0].host == "127.0.0.1"
    assert parse_listeners(["PLAINTEXT://[::1]:1"]) == [ListenerAddress("PLAINTEXT", "::1", 1)]


def test_the_controllers_listener_is_not_for_clients() -> None:
    """A server.properties of Kafka names both."""
    texts = ["INSIDE://0.0.0.0:9092", "CONTROLLER://:9093"]
    found = broker_listeners(texts, ["CONTROLLER"], MAP)
    assert [listener.name for listener in found] == ["INSIDE"]


@pytest.mark.parametrize(
    "texts", [["9092"], ["PLAINTEXT://h"], ["PLAINTEXT://h:99999"], ["CONTROLLER://:1"],
              ["SSL://:1"], ["INSIDE://:1", "INSIDE://:2"]]
)
def test_what_cannot_be_served_is_said_at_the_start(texts: list[str]) -> None:
    """In a sentence."""
    with pytest.raises(ListenerError):
        broker_listeners(texts, ["CONTROLLER"], MAP)


def test_clients_are_told_what_is_advertised_else_where_we_are_bound() -> None:
    """Never 0.0.0.0, to which no client can connect."""
    bound = ListenerAddress("INSIDE", "0.0.0.0", 9092)
    assert advertised(bound, None).host == "127.0.0.1"
    told = advertised(bound, ["INSIDE://bus.example:19092"])
    assert (told.host, told.port) == ("bus.example", 19092)

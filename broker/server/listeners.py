"""Parses Kafka's `listeners` and `advertised.listeners`, with their security protocols."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from broker.config.views import BrokerConfig
from broker.metadata.image import Endpoint
from broker.security.security_protocol import SecurityProtocol, protocols_by_listener

LOCALHOST = "127.0.0.1"
CONTROLLER = "CONTROLLER"
"""A listener of this name is plaintext where the map does not say otherwise, as in Kafka."""
_LISTENER = re.compile(r"(?P<name>[A-Za-z0-9_]+)://(?P<host>\[[^\]]*\]|[^:/]*):(?P<port>\d+)")


class ListenerError(Exception):
    """A listener that cannot be parsed or served."""


@dataclass(frozen=True, slots=True)
class ListenerAddress:
    """Name, address and security protocol of one listener."""

    name: str
    host: str
    port: int
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT


Listening = TypeVar("Listening", ListenerAddress, Endpoint)
"""A listener of this process, or one that a broker has registered."""


def parse_listeners(texts: Iterable[str]) -> list[ListenerAddress]:
    """All listeners; one without a host serves this machine only."""
    found = [_parse(text.strip()) for text in texts]
    names = [listener.name for listener in found]
    if len(set(names)) != len(names):
        raise ListenerError(f"listener names must differ: {', '.join(names)}")
    return found


def with_protocols(listeners: Iterable[ListenerAddress], text: str) -> list[ListenerAddress]:
    """The listeners with their protocols of `listener.security.protocol.map`; ListenerError for one
    that there is not."""
    by_name = protocols_by_listener(text)
    return [replace(one, protocol=_protocol(one.name, by_name)) for one in listeners]


def shared_addresses(listeners: Iterable[ListenerAddress]) -> frozenset[tuple[str, int]]:
    """Host and port that two listeners have, one with TLS and one without, for the time in which
    clients move from one to the other (ADR 0119). Kafka has no such thing. ListenerError for two
    that a client's first byte does not tell apart."""
    by_address: dict[tuple[str, int], list[ListenerAddress]] = {}
    for one in listeners:
        if one.port:
            by_address.setdefault((one.host, one.port), []).append(one)
    for (host, port), here in by_address.items():
        if len(here) > 2 or len({one.protocol.has_tls for one in here}) != len(here):
            names = ", ".join(one.name for one in here)
            raise ListenerError(
                f"the listeners {names} all have the address {host}:{port}; one port serves at most"
                " two, one with TLS and one without"
            )
    return frozenset(address for address, here in by_address.items() if len(here) == 2)


def inter_broker_listener(
    listeners: Sequence[Listening], config: BrokerConfig
) -> Listening | None:
    """The one that the configuration names, else the first."""
    wanted = config["inter.broker.listener.name"] or config["security.inter.broker.protocol"]
    return next((one for one in listeners if one.name == wanted), next(iter(listeners), None))


def protocol_of(text: str, name: str) -> SecurityProtocol:
    """The protocol of one listener, here or elsewhere, by `listener.security.protocol.map`.
    ListenerError for one that there is not."""
    return _protocol(name, protocols_by_listener(text))


def _protocol(name: str, by_name: Mapping[str, str]) -> SecurityProtocol:
    wanted = by_name.get(name, SecurityProtocol.PLAINTEXT.name if name == CONTROLLER else name)
    if wanted not in SecurityProtocol.__members__:
        served = ", ".join(SecurityProtocol.__members__)
        raise ListenerError(
            f"listener {name} asks for {wanted}, which is none of {served}; name its protocol in "
            "listener.security.protocol.map"
        )
    return SecurityProtocol[wanted]


def advertised(
    bound: ListenerAddress, texts: Iterable[str] | None
) -> ListenerAddress:
    """The address for clients: the one advertised under this name, else the bound one."""
    for listener in parse_listeners(texts or ()):
        if listener.name == bound.name:
            return replace(
                bound, host=listener.host or bound.host, port=listener.port or bound.port
            )
    host = LOCALHOST if bound.host in ("0.0.0.0", "::", "") else bound.host
    return replace(bound, host=host)


def _parse(text: str) -> ListenerAddress:
    match = _LISTENER.fullmatch(text)
    if match is None or int(match["port"]) > 65_535:
        raise ListenerError(f"{text!r} is not a listener; write NAME://host:port")
    host = match["host"].strip("[]")
    return ListenerAddress(match["name"].upper(), host or LOCALHOST, int(match["port"]))

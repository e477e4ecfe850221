"""Parses Kafka's `listeners` and `advertised.listeners`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

LOCALHOST = "127.0.0.1"
_LISTENER = re.compile(r"(?P<name>[A-Za-z0-9_]+)://(?P<host>\[[^\]]*\]|[^:/]*):(?P<port>\d+)")


class ListenerError(Exception):
    """A listener that cannot be parsed or served."""


@dataclass(frozen=True, slots=True)
class ListenerAddress:
    """Name and address of one listener."""

    name: str
    host: str
    port: int


def parse_listeners(texts: Iterable[str]) -> list[ListenerAddress]:
    """All listeners; one without a host serves this machine only."""
    found = [_parse(text.strip()) for text in texts]
    names = [listener.name for listener in found]
    if len(set(names)) != len(names):
        raise ListenerError(f"listener names must differ: {', '.join(names)}")
    return found


def broker_listeners(
    listeners: Iterable[str], controller_names: Iterable[str], protocols: str
) -> list[ListenerAddress]:
    """The listeners for clients: not the controller's; plaintext, for now."""
    controllers = {name.strip() for name in controller_names}
    by_name = dict(pair.strip().split(":", 1) for pair in protocols.split(",") if ":" in pair)
    found = [one for one in parse_listeners(listeners) if one.name not in controllers]
    if not found:
        raise ListenerError("`listeners` has no listener for clients")
    for listener in found:
        protocol = by_name.get(listener.name, listener.name)
        if protocol != "PLAINTEXT":
            raise ListenerError(
                f"listener {listener.name} asks for {protocol}; only PLAINTEXT is served yet"
            )
    return found


def advertised(
    bound: ListenerAddress, texts: Iterable[str] | None
) -> ListenerAddress:
    """The address for clients: the one advertised under this name, else the bound one."""
    for listener in parse_listeners(texts or ()):
        if listener.name == bound.name:
            return ListenerAddress(
                bound.name, listener.host or bound.host, listener.port or bound.port
            )
    host = LOCALHOST if bound.host in ("0.0.0.0", "::", "") else bound.host
    return ListenerAddress(bound.name, host, bound.port)


def _parse(text: str) -> ListenerAddress:
    match = _LISTENER.fullmatch(text)
    if match is None or int(match["port"]) > 65_535:
        raise ListenerError(f"{text!r} is not a listener; write NAME://host:port")
    host = match["host"].strip("[]")
    return ListenerAddress(match["name"].upper(), host or LOCALHOST, int(match["port"]))

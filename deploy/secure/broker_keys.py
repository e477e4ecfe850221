"""Kafka's keys of a broker whose listeners are not plain, and of one on the way there. Pure.

In: the keys of an open broker, and what its node's file adds. Out: those that it is started with.
Never: a file, a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from deploy.secure.layout import MECHANISMS

CLIENTS, BROKERS, CONTROLLER = "CLIENTS", "BROKERS", "CONTROLLER"
PLAIN = "PLAINTEXT"
OPEN_LISTENERS = "PLAINTEXT://127.0.0.1:9092"
BROKERS_PORT_STEP = 3
"""From the port of clients to that of brokers; the controller's and the metrics' lie between."""
PROTOCOL_MAP = "listener.security.protocol.map"
MIRROR_LISTENER = "mirror.listener.name"
"""The broker's key that names the listener over which a mirror may write."""
KRAFT_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
REAUTHENTICATION = "connections.max.reauth.ms"
SESSION_MS = 3_600_000
"""So long goes on whoever logged in with what has been withdrawn."""
ENSEMBLE_PREFIX = "zookeeper.ssl."
ENSEMBLE_SWITCHES = ("zookeeper.ssl.client.enable", "zookeeper.set.acl")
"""On unless the settings say otherwise, which `secure check` then names."""
ZOOKEEPER_AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
OPEN_CONTROLLER = "OPEN_CONTROLLER"
"""While a site is converted: the controller's listener that is still plain."""
INTER_BROKER = "inter.broker.listener.name"
CONTROLLER_NAMES = "controller.listener.names"
ANONYMOUS = "User:ANONYMOUS"


class ConversionStage(IntEnum):
    """How far a site is on its way from open to closed; the next one is always compatible with the
    one before it (ADR 0119)."""

    OPEN = 0
    BOTH = 1
    """Brokers take TLS and logins beside what is plain, on the same ports."""
    BROKERS = 2
    """Brokers and controllers speak TLS among themselves."""
    PROCESSES = 3
    """Our own processes log in; of brokers it asks for nothing more."""
    CLOSED = 4


def secured(broker: Mapping[str, str]) -> dict[str, str]:
    """The listener that was plain asks for a login over TLS; one for other brokers lies beside it,
    which asks for their certificate, as the controller's does. Whoever has named the protocols of
    listeners himself keeps them."""
    if PROTOCOL_MAP in broker:
        return dict(broker)
    keys = {"listeners": _secured(broker.get("listeners", OPEN_LISTENERS))}
    if "advertised.listeners" in broker:
        keys["advertised.listeners"] = _secured(broker["advertised.listeners"])
    zookeeper = "zookeeper.connect" in broker
    own = {
        name: value
        for name, value in broker.items()
        if zookeeper or not name.startswith(ENSEMBLE_PREFIX)
    }
    protocols = {CLIENTS: "SASL_SSL", BROKERS: "SSL", CONTROLLER: "SSL"}
    if mirrors := broker.get(MIRROR_LISTENER):
        protocols.setdefault(mirrors, "SASL_SSL")  # a mirror logs in, as all clients do
    return {
        REAUTHENTICATION: str(SESSION_MS),
        **(dict.fromkeys(ENSEMBLE_SWITCHES, "true") if zookeeper else {}),
        **own,
        **keys,
        PROTOCOL_MAP: ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        INTER_BROKER: BROKERS,
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.brokers.ssl.client.auth": "required",
        "listener.name.controller.ssl.client.auth": "required",
        "authorizer.class.name": ZOOKEEPER_AUTHORIZER if zookeeper else KRAFT_AUTHORIZER,
    }


def converted(broker: Mapping[str, str], stage: ConversionStage) -> dict[str, str]:
    """The keys of a broker at this stage; `broker` has those of its node's file, too. Each plain
    listener shares its port with the one that takes its place, so that no address changes."""
    if stage is ConversionStage.OPEN or PROTOCOL_MAP in broker:
        return dict(broker)
    closed = secured(broker)
    if stage is ConversionStage.CLOSED:
        return closed
    keys = {
        **closed,
        "listeners": _beside(broker.get("listeners", OPEN_LISTENERS), closed["listeners"]),
        PROTOCOL_MAP: f"{PLAIN}:PLAINTEXT,{OPEN_CONTROLLER}:PLAINTEXT,{closed[PROTOCOL_MAP]}",
        "super.users": ";".join(filter(None, [closed.get("super.users", ""), ANONYMOUS])),
    }
    if "advertised.listeners" in broker:
        keys["advertised.listeners"] = _beside(
            broker["advertised.listeners"], closed["advertised.listeners"]
        )
    controllers = [CONTROLLER, OPEN_CONTROLLER]
    if stage is ConversionStage.BOTH:
        # Not named: the listener of clients is that of brokers still, and their quotas hold there.
        del keys[INTER_BROKER]
        controllers.reverse()
    if "zookeeper.connect" not in broker:
        keys[CONTROLLER_NAMES] = ",".join(controllers)
    return keys


def with_ensemble_of(broker: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """The same, but for the way to ZooKeeper, which is what the settings say: a site that is
    converted has an ensemble whose servers cannot be asked for TLS one after the other."""
    return {
        name: value
        for name, value in broker.items()
        if name in settings
        or not (name.startswith(ENSEMBLE_PREFIX) or name in ENSEMBLE_SWITCHES)
    }


def stage_of(broker: Mapping[str, str]) -> ConversionStage:
    """By the keys that a running broker has."""
    names = {one.strip().partition("://")[0] for one in broker.get("listeners", "").split(",")}
    if CLIENTS not in names:
        return ConversionStage.OPEN
    if PLAIN not in names:
        return ConversionStage.CLOSED
    among = broker.get(INTER_BROKER) or PLAIN
    return ConversionStage.BROKERS if among == BROKERS else ConversionStage.BOTH


def brokers_address(broker: Mapping[str, str]) -> str:
    """`host:port` of this broker's own listener for brokers; empty where it has none."""
    for one in broker.get("listeners", "").split(","):
        name, _, address = one.strip().partition("://")
        if name == BROKERS:
            host, _, port = address.rpartition(":")
            reached = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)
            return f"{reached}:{port}"
    return ""


def _beside(plain: str, closed: str) -> str:
    """All of both; the plain listener of controllers under a name of its own."""
    kept = []
    for one in plain.split(","):
        name, _, address = one.strip().partition("://")
        if name in (PLAIN, CONTROLLER):
            kept.append(f"{OPEN_CONTROLLER if name == CONTROLLER else name}://{address}")
    return ",".join([*kept, closed])


def _secured(listeners: str) -> str:
    """The same addresses; a listener for brokers where none is named."""
    named = [one.strip() for one in listeners.split(",")]
    has_brokers = any(one.startswith(f"{BROKERS}://") for one in named)
    found: list[str] = []
    for one in named:
        name, _, address = one.partition("://")
        if name != PLAIN:
            found.append(one)
            continue
        found.append(f"{CLIENTS}://{address}")
        if not has_brokers:
            host, _, port = address.rpartition(":")
            found.append(f"{BROKERS}://{host}:{int(port) + BROKERS_PORT_STEP}")
    return ",".join(found)

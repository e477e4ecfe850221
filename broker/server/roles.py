"""The roles of this process and of its listeners.

Raises a ListenerError or ConfigError that names the key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from broker.config.key import ConfigError
from broker.config.keys import BROKER_KEYS
from broker.config.views import BrokerConfig
from broker.handlers.listener_type import ListenerType
from broker.network.shared_port import MAX_PLAIN_REQUEST_BYTES
from broker.security.logins import LoginSettings
from broker.server.authorization import check_authorizer
from broker.server.listener_logins import controller_login, login_settings, peer_login
from broker.server.listeners import (
    ListenerAddress,
    ListenerError,
    inter_broker_listener,
    parse_listeners,
    protocol_of,
    shared_addresses,
    with_protocols,
)
from bus.client.wire.sasl import SaslLogin

BROKER, CONTROLLER = "broker", "controller"
MIRROR_LISTENER = "mirror.listener.name"


@dataclass(frozen=True, slots=True)
class Roles:
    """The part of one process in the cluster.

    `founds_cluster`: this process is the whole quorum, and creates it if it is new. `is_alone`: it
    is also the whole cluster, since no listener lets others join. `zookeeper`: the ensemble's
    address; then there are no quorum and no controller listeners.
    """

    broker: bool
    controller: bool
    founds_cluster: bool
    is_alone: bool
    zookeeper: str | None
    broker_listeners: tuple[ListenerAddress, ...]
    controller_listeners: tuple[ListenerAddress, ...]
    mirror_listener: str | None = None
    logins: Mapping[str, LoginSettings] = field(default_factory=dict)
    """Of the listeners with SASL, by name."""
    peer_login: SaslLogin | None = None
    """What this process logs in with at the inter-broker listener of others, if it must."""
    controller_login: SaslLogin | None = None
    """The same at controllers."""
    peer_tls: str | None = None
    """The listener whose keys of TLS count at the inter-broker listener of others, if it has
    TLS."""
    controller_tls: str | None = None
    """The same at controllers."""
    shared_addresses: frozenset[tuple[str, int]] = frozenset()
    """Where two listeners have one port."""

    @property
    def client_listener_type(self) -> ListenerType:
        """The type of the listeners for clients and brokers."""
        return ListenerType.ZOOKEEPER_BROKER if self.zookeeper else ListenerType.BROKER

    @property
    def controller_listener_type(self) -> ListenerType:
        """The type of the listener that serves requests to the active controller."""
        return ListenerType.ZOOKEEPER_BROKER if self.zookeeper else ListenerType.CONTROLLER

    @property
    def listener_types(self) -> tuple[ListenerType, ...]:
        """All, without duplicates. Requests in envelopes are dispatched as on a controller's
        listener."""
        of_names = (self.type_of(one.name) for one in self.broker_listeners)
        return tuple(
            dict.fromkeys((self.client_listener_type, ListenerType.CONTROLLER, *of_names))
        )

    def type_of(self, name: str) -> ListenerType:
        """The type of a listener for clients and brokers: the mirror's serves more."""
        if name == self.mirror_listener:
            return self.client_listener_type | ListenerType.MIRROR
        return self.client_listener_type


def roles_of(config: BrokerConfig) -> Roles:
    """The roles of a configuration; raises ConfigError and ListenerError."""
    zookeeper = ("zookeeper.connect" in BROKER_KEYS and config["zookeeper.connect"]) or None
    if zookeeper:
        _check_ensemble(zookeeper)
    check_authorizer(config, with_zookeeper=bool(zookeeper))
    wanted = (BROKER,) if zookeeper else tuple(config["process.roles"])
    listeners = with_protocols(
        parse_listeners(config["listeners"]), config["listener.security.protocol.map"]
    )
    names = {name.strip() for name in config["controller.listener.names"] or ()}
    clients = tuple(one for one in listeners if zookeeper or one.name not in names)
    controllers = tuple(one for one in listeners if not zookeeper and one.name in names)
    shared = shared_addresses(clients) | shared_addresses(controllers)
    _check_shared(config, listeners, shared)
    voters = config["controller.quorum.voters"]
    if BROKER in wanted and not clients:
        raise ListenerError("`listeners` has no listener for clients")
    quorum = bool(voters or config["controller.quorum.bootstrap.servers"])
    if quorum and CONTROLLER in wanted and not controllers and not zookeeper:
        raise ListenerError(
            f"this controller needs a listener named {' or '.join(sorted(names))} in `listeners`"
        )
    if not quorum and not zookeeper and CONTROLLER not in wanted:
        raise ConfigError(
            "controller.quorum.bootstrap.servers",
            "a broker without the controller's role needs controller.quorum.bootstrap.servers "
            "or controller.quorum.voters to find the controllers",
        )
    if voters and not zookeeper:
        _check_voter(config, CONTROLLER in wanted)
    if BROKER in wanted:
        _check_mirror(config, clients)
    logins = login_settings(config, (*clients, *controllers))
    login = peer_login(config, clients) if BROKER in wanted else None
    peer = inter_broker_listener(clients, config) if BROKER in wanted else None
    peer_tls = peer.name if peer is not None and peer.protocol.has_tls else None
    return Roles(
        broker=BROKER in wanted,
        controller=CONTROLLER in wanted and not zookeeper,
        founds_cluster=not quorum and not zookeeper,
        is_alone=not quorum and not zookeeper and not controllers,
        zookeeper=zookeeper,
        broker_listeners=clients if BROKER in wanted else (),
        controller_listeners=controllers if CONTROLLER in wanted else (),
        mirror_listener=config[MIRROR_LISTENER] or None,
        logins=logins,
        peer_login=login,
        controller_login=login if zookeeper else _controller_login(config, has_quorum=quorum),
        peer_tls=peer_tls,
        controller_tls=peer_tls if zookeeper else _controller_tls(config, has_quorum=quorum),
        shared_addresses=shared,
    )


def _check_shared(
    config: BrokerConfig,
    listeners: Sequence[ListenerAddress],
    shared: frozenset[tuple[str, int]],
) -> None:
    """A port is shared by two listeners for clients, or by two for controllers; and only while no
    request begins as a handshake of TLS does."""
    between = shared_addresses(listeners) - shared
    if between:
        host, port = min(between)
        raise ListenerError(
            f"a listener for clients and one for controllers have the address {host}:{port}; give"
            " each a port of its own"
        )
    most = "socket.request.max.bytes"
    if shared and config[most] > MAX_PLAIN_REQUEST_BYTES:
        raise ConfigError(
            most,
            f"{most} may be at most {MAX_PLAIN_REQUEST_BYTES} while two listeners share a port: a"
            " larger request would look like a handshake of TLS",
        )


def _controller_login(config: BrokerConfig, *, has_quorum: bool) -> SaslLogin | None:
    name = _controller_listener(config, has_quorum=has_quorum)
    if name is None:
        return None
    protocol = protocol_of(config["listener.security.protocol.map"], name)
    return controller_login(config, name, protocol)


def _controller_tls(config: BrokerConfig, *, has_quorum: bool) -> str | None:
    name = _controller_listener(config, has_quorum=has_quorum)
    if name is None:
        return None
    return name if protocol_of(config["listener.security.protocol.map"], name).has_tls else None


def _controller_listener(config: BrokerConfig, *, has_quorum: bool) -> str | None:
    """A broker has no listener of a controller: the first name says how they are reached. None
    where there are no others."""
    name: str = next(iter(config["controller.listener.names"] or ()), "").strip()
    return name if name and has_quorum else None


def _check_mirror(config: BrokerConfig, clients: tuple[ListenerAddress, ...]) -> None:
    """The mirror writes without the checks that hold for producers, so that its listener is not
    the one that everybody uses."""
    name = config[MIRROR_LISTENER]
    if not name:
        return
    if name not in [one.name for one in clients]:
        raise ListenerError(f"`listeners` has no {name}, which {MIRROR_LISTENER} names")
    if len(clients) == 1 or name == config["inter.broker.listener.name"]:
        raise ListenerError(
            f"{MIRROR_LISTENER} names {name}, which clients or the other brokers use; give the "
            "mirror a listener of its own in `listeners`"
        )


def _check_ensemble(text: str) -> None:
    """`host:port,host:port/chroot`. A chroot after each host would be one odd path, in which a
    separate cluster would be created."""
    hosts, slash, chroot = text.partition("/")
    for place in hosts.split(","):
        host, colon, port = place.strip().rpartition(":")
        if not colon:
            host, port = port, "2181"
        if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise ConfigError(
                "zookeeper.connect", f"{place.strip()!r} is no server; write host:port,host:port"
            )
    if "," in chroot:
        raise ConfigError(
            "zookeeper.connect",
            "the chroot stands once, after the last server: host:port,host:port/chroot",
        )
    if slash and chroot and any(part in ("", ".", "..") for part in chroot.split("/")):
        raise ConfigError("zookeeper.connect", f"the chroot /{chroot} is no path of ZooKeeper")


def _check_voter(config: BrokerConfig, is_controller: bool) -> None:
    """A node of the static quorum is a controller, and the other way round."""
    named = [text.strip().partition("@")[0] for text in config["controller.quorum.voters"]]
    if (str(config.node_id) in named) is not is_controller:
        raise ConfigError(
            "controller.quorum.voters",
            f"node.id {config.node_id} is "
            + (
                "not in controller.quorum.voters, but process.roles makes it a controller; "
                "name it there or take the role away"
                if is_controller
                else "in controller.quorum.voters, but process.roles does not make it a "
                "controller; give this broker a node.id of its own or the role"
            ),
        )

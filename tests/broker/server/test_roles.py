"""What a configuration makes of a process."""

from __future__ import annotations

import pytest

from broker.config.key import ConfigError
from broker.config.views import BrokerConfig
from broker.handlers.listener_type import ListenerType
from broker.server.listeners import ListenerError
from broker.server.roles import Roles, roles_of

BOTH = "PLAINTEXT://:19092,CONTROLLER://:19093"


def roles(**properties: str) -> Roles:
    return roles_of(
        BrokerConfig.from_mapping(
            {name.replace("_", "."): value for name, value in properties.items()}
        )
    )


def test_without_a_word_a_process_is_a_whole_cluster() -> None:
    """No quorum to look for, no listener for controllers."""
    found = roles()
    assert (found.broker, found.controller, found.is_alone) == (True, True, True)
    assert found.controller_listeners == ()
    assert [one.name for one in found.broker_listeners] == ["PLAINTEXT"]


def test_a_process_with_a_controllers_listener_may_be_joined() -> None:
    """It makes its own quorum, and is not alone."""
    found = roles(listeners=BOTH)
    assert found.founds_cluster
    assert not found.is_alone


def test_each_role_takes_its_own_listeners() -> None:
    """A controller alone answers no clients."""
    both = roles(listeners=BOTH, controller_quorum_voters="1@127.0.0.1:19093")
    assert [one.name for one in both.controller_listeners] == ["CONTROLLER"]
    only = roles(
        listeners="CONTROLLER://:19093", process_roles="controller", node_id="2",
        controller_quorum_voters="1@127.0.0.1:19093,2@127.0.0.1:19094",
    )
    assert only.broker_listeners == ()
    assert not only.broker
    assert not both.is_alone


def test_what_cannot_serve_is_said_in_a_sentence() -> None:
    """Naming the key."""
    with pytest.raises(ListenerError, match="no listener for clients"):
        roles(listeners="CONTROLLER://:19093", controller_quorum_voters="1@127.0.0.1:19093")
    with pytest.raises(ListenerError, match="named CONTROLLER"):
        roles(controller_quorum_voters="1@127.0.0.1:19093")
    with pytest.raises(ListenerError, match="none of PLAINTEXT"):
        roles(listeners="OUTSIDE://:19092")
    with pytest.raises(ConfigError, match=r"controller\.quorum\.bootstrap\.servers"):
        roles(process_roles="broker")
    with pytest.raises(ConfigError, match="of its own"):
        roles(process_roles="broker", controller_quorum_voters="1@127.0.0.1:19093")
    with pytest.raises(ConfigError, match="name it there"):
        roles(listeners=BOTH, controller_quorum_voters="2@127.0.0.1:19093")


def test_under_zookeeper_there_is_no_quorum() -> None:
    """Every listener is a broker's."""
    found = roles(zookeeper_connect="127.0.0.1:2181", listeners="PLAINTEXT://:19092")
    assert found.zookeeper == "127.0.0.1:2181"
    assert (found.broker, found.controller, found.is_alone) == (True, False, False)


@pytest.mark.parametrize(
    "connect", ["zk", "zk1:2181,zk2:2182", "zk1:2181,zk2/kafka", "zk:2181/a/b", "[::1]:2181/k", "zk:1/"]
)
def test_an_ensemble_is_servers_and_one_chroot(connect: str) -> None:
    """As ZooKeeper's own clients read it."""
    assert roles(zookeeper_connect=connect, listeners="PLAINTEXT://:19092").zookeeper == connect


@pytest.mark.parametrize(
    ("connect", "remedy"),
    [
        ("zk:port", "write host:port"),
        ("zk:2181,", "write host:port"),
        ("zk:99999", "write host:port"),
        ("zk1:2181/kafka,zk2:2181/kafka", "the chroot stands once"),
        ("zk:2181/a//b", "no path of ZooKeeper"),
        ("zk:2181/kafka/", "no path of ZooKeeper"),
        ("zk:2181/../kafka", "no path of ZooKeeper"),
    ],
)
def test_what_is_no_ensemble_is_refused_with_the_remedy(connect: str, remedy: str) -> None:
    """A chroot after each host would found a cluster of its own at an odd path."""
    with pytest.raises(ConfigError, match=remedy):
        roles(zookeeper_connect=connect, listeners="PLAINTEXT://:19092")


def test_a_mirror_has_a_listener_of_its_own() -> None:
    """It is another type of listener, for which more is served; the others are as before."""
    both = "PLAINTEXT://:1,MIRROR://:2"
    protocols = "PLAINTEXT:PLAINTEXT,MIRROR:PLAINTEXT"
    named = {"listener_security_protocol_map": protocols, "mirror_listener_name": "MIRROR"}
    found = roles(listeners=both, **named)
    assert found.type_of("PLAINTEXT") is ListenerType.BROKER
    assert found.type_of("MIRROR") == ListenerType.BROKER | ListenerType.MIRROR
    assert ListenerType.BROKER | ListenerType.MIRROR in found.listener_types
    assert roles(listeners=both, listener_security_protocol_map=protocols).type_of(
        "MIRROR"
    ) is ListenerType.BROKER


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"listeners": "PLAINTEXT://:1"}, "has no MIRROR"),
        ({"listeners": "MIRROR://:1"}, "listener of its own"),
        (
            {"listeners": "PLAINTEXT://:1,MIRROR://:2", "inter_broker_listener_name": "MIRROR"},
            "listener of its own",
        ),
    ],
)
def test_a_mirrors_listener_that_others_use_or_nobody_has_is_refused(
    settings: dict[str, str], why: str
) -> None:
    """What it may do is not for every client."""
    protocols = "PLAINTEXT:PLAINTEXT,MIRROR:PLAINTEXT"
    with pytest.raises(ListenerError, match=why):
        roles(
            listener_security_protocol_map=protocols, mirror_listener_name="MIRROR", **settings
        )


def mapped(listeners: str, **more: str) -> Roles:
    protocols = "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_SSL,OPEN:PLAINTEXT,CONTROLLER:SSL,OPEN_CONTROLLER:PLAINTEXT"
    names = "CONTROLLER,OPEN_CONTROLLER"
    return roles(
        listeners=listeners, listener_security_protocol_map=protocols, controller_listener_names=names,
        sasl_enabled_mechanisms="SCRAM-SHA-512", **more,
    )  # fmt: skip


def test_a_listener_with_tls_and_one_without_may_share_a_port() -> None:
    """While clients move from one to the other."""
    found = mapped("PLAINTEXT://:9092,CLIENTS://:9092,CONTROLLER://:9093,OPEN_CONTROLLER://:9093")
    assert found.shared_addresses == {("127.0.0.1", 9092), ("127.0.0.1", 9093)}
    apart = mapped("PLAINTEXT://:9092,CLIENTS://10.0.0.1:9092,CONTROLLER://:9093")
    assert not apart.shared_addresses
    assert not mapped("PLAINTEXT://:0,CLIENTS://:0").shared_addresses


@pytest.mark.parametrize(
    ("listeners", "why"),
    [
        ("PLAINTEXT://:9092,OPEN://:9092", "one with TLS and one without"),
        ("PLAINTEXT://:9092,OPEN://:9092,CLIENTS://:9092", "at most two"),
        ("PLAINTEXT://:9092,CONTROLLER://:9092", "one for controllers"),
    ],
)
def test_listeners_that_a_first_byte_does_not_tell_apart_have_ports_of_their_own(
    listeners: str, why: str
) -> None:
    with pytest.raises(ListenerError, match=why):
        mapped(listeners)


def test_a_request_that_would_look_like_a_handshake_is_too_large_where_a_port_is_shared() -> None:
    most = str(22 << 24)
    shared = "PLAINTEXT://:9092,CLIENTS://:9092"
    with pytest.raises(ConfigError, match="handshake"):
        mapped(shared, socket_request_max_bytes=most)
    mapped(shared, socket_request_max_bytes=str((22 << 24) - 1))
    mapped("PLAINTEXT://:9092", socket_request_max_bytes=most)

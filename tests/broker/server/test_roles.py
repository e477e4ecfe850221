"""What a configuration makes of a process."""

from __future__ import annotations

import pytest

from broker.config.key import ConfigError
from broker.config.views import BrokerConfig
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
    assert (found.broker, found.controller, found.alone) == (True, True, True)
    assert found.controller_listeners == ()
    assert [one.name for one in found.broker_listeners] == ["PLAINTEXT"]


def test_a_process_with_a_controllers_listener_may_be_joined() -> None:
    """It makes its own quorum, and is not alone."""
    found = roles(listeners=BOTH)
    assert found.founds
    assert not found.alone


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
    assert not both.alone


def test_what_cannot_serve_is_said_in_a_sentence() -> None:
    """Naming the key."""
    with pytest.raises(ListenerError, match="no listener for clients"):
        roles(listeners="CONTROLLER://:19093", controller_quorum_voters="1@127.0.0.1:19093")
    with pytest.raises(ListenerError, match="named CONTROLLER"):
        roles(controller_quorum_voters="1@127.0.0.1:19093")
    with pytest.raises(ListenerError, match="PLAINTEXT"):
        roles(listeners="SSL://:19092")
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
    assert (found.broker, found.controller, found.alone) == (True, False, False)

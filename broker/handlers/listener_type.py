"""The type of the listener on which a request arrived."""

from __future__ import annotations

from enum import Flag, auto


class ListenerType(Flag):
    """The types of listeners; a row of the registry says where its API is served."""

    BROKER = auto()
    CONTROLLER = auto()
    ZOOKEEPER_BROKER = auto()
    """A broker's listener under ZooKeeper: the controller is one of the brokers there."""
    MIRROR = auto()
    """Beside one of the others: the listener that `mirror.listener.name` names."""

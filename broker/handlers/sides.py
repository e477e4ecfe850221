"""Which kind of listener a request came to; a registry row says where its API is served."""

from __future__ import annotations

from enum import Flag, auto


class Side(Flag):
    """The kinds of listeners."""

    BROKER = auto()
    CONTROLLER = auto()
    ZOOKEEPER_BROKER = auto()
    """A broker's listener under ZooKeeper: the controller is one of the brokers there."""

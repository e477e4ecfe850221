"""Which plane a configuration asks for. The other one is not even imported."""

from __future__ import annotations

from broker.server.plane import Plane, Ports


def make_plane(ports: Ports) -> Plane:
    """The plane of this process."""
    if ports.roles.zookeeper:
        from broker.server.zookeeper_plane import ZookeeperPlane

        return ZookeeperPlane(ports)
    from broker.server.kraft_plane import KraftPlane

    return KraftPlane(ports)

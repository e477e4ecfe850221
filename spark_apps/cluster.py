"""What a driver asks a cluster; the questions themselves are the bus's."""

from bus.client.cluster import (
    Cluster,
    ClusterError,
    Partition,
    admin_client,
    look,
    offsets,
    wait_for,
)

__all__ = [
    "Cluster",
    "ClusterError",
    "Partition",
    "admin_client",
    "look",
    "offsets",
    "wait_for",
]

"""What the rows of the registry may ask: an operation on a kind of resource, with Kafka's words."""

from __future__ import annotations

from typing import NamedTuple

from bus.protocol.acls import Operation, Resource


class Permission(NamedTuple):
    """An operation on a resource of this kind, whatever its name."""

    operation: Operation
    resource: Resource


READ_TOPIC = Permission(Operation.READ, Resource.TOPIC)
WRITE_TOPIC = Permission(Operation.WRITE, Resource.TOPIC)
CREATE_TOPIC = Permission(Operation.CREATE, Resource.TOPIC)
DELETE_TOPIC = Permission(Operation.DELETE, Resource.TOPIC)
ALTER_TOPIC = Permission(Operation.ALTER, Resource.TOPIC)
DESCRIBE_TOPIC = Permission(Operation.DESCRIBE, Resource.TOPIC)
DESCRIBE_TOPIC_CONFIGS = Permission(Operation.DESCRIBE_CONFIGS, Resource.TOPIC)
ALTER_TOPIC_CONFIGS = Permission(Operation.ALTER_CONFIGS, Resource.TOPIC)

READ_GROUP = Permission(Operation.READ, Resource.GROUP)
DELETE_GROUP = Permission(Operation.DELETE, Resource.GROUP)
DESCRIBE_GROUP = Permission(Operation.DESCRIBE, Resource.GROUP)
DESCRIBE_GROUP_CONFIGS = Permission(Operation.DESCRIBE_CONFIGS, Resource.GROUP)
ALTER_GROUP_CONFIGS = Permission(Operation.ALTER_CONFIGS, Resource.GROUP)

CREATE_CLUSTER = Permission(Operation.CREATE, Resource.CLUSTER)
DELETE_CLUSTER = Permission(Operation.DELETE, Resource.CLUSTER)
ALTER_CLUSTER = Permission(Operation.ALTER, Resource.CLUSTER)
DESCRIBE_CLUSTER = Permission(Operation.DESCRIBE, Resource.CLUSTER)
DESCRIBE_CLUSTER_CONFIGS = Permission(Operation.DESCRIBE_CONFIGS, Resource.CLUSTER)
ALTER_CLUSTER_CONFIGS = Permission(Operation.ALTER_CONFIGS, Resource.CLUSTER)
CLUSTER_ACTION = Permission(Operation.CLUSTER_ACTION, Resource.CLUSTER)
"""What a broker or a controller does for the cluster."""
IDEMPOTENT_WRITE = Permission(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER)

"""What the rows of the registry may ask: an operation on a kind of resource, with Kafka's words."""

from __future__ import annotations

from typing import NamedTuple

from bus.protocol.acls import Operation, Resource


class ResourceOperation(NamedTuple):
    """An operation on a resource of this kind, whatever its name."""

    operation: Operation
    resource: Resource


READ_TOPIC = ResourceOperation(Operation.READ, Resource.TOPIC)
WRITE_TOPIC = ResourceOperation(Operation.WRITE, Resource.TOPIC)
CREATE_TOPIC = ResourceOperation(Operation.CREATE, Resource.TOPIC)
DELETE_TOPIC = ResourceOperation(Operation.DELETE, Resource.TOPIC)
ALTER_TOPIC = ResourceOperation(Operation.ALTER, Resource.TOPIC)
DESCRIBE_TOPIC = ResourceOperation(Operation.DESCRIBE, Resource.TOPIC)
DESCRIBE_TOPIC_CONFIGS = ResourceOperation(Operation.DESCRIBE_CONFIGS, Resource.TOPIC)
ALTER_TOPIC_CONFIGS = ResourceOperation(Operation.ALTER_CONFIGS, Resource.TOPIC)

READ_GROUP = ResourceOperation(Operation.READ, Resource.GROUP)
DELETE_GROUP = ResourceOperation(Operation.DELETE, Resource.GROUP)
DESCRIBE_GROUP = ResourceOperation(Operation.DESCRIBE, Resource.GROUP)
DESCRIBE_GROUP_CONFIGS = ResourceOperation(Operation.DESCRIBE_CONFIGS, Resource.GROUP)
ALTER_GROUP_CONFIGS = ResourceOperation(Operation.ALTER_CONFIGS, Resource.GROUP)

CREATE_CLUSTER = ResourceOperation(Operation.CREATE, Resource.CLUSTER)
DELETE_CLUSTER = ResourceOperation(Operation.DELETE, Resource.CLUSTER)
ALTER_CLUSTER = ResourceOperation(Operation.ALTER, Resource.CLUSTER)
DESCRIBE_CLUSTER = ResourceOperation(Operation.DESCRIBE, Resource.CLUSTER)
DESCRIBE_CLUSTER_CONFIGS = ResourceOperation(Operation.DESCRIBE_CONFIGS, Resource.CLUSTER)
ALTER_CLUSTER_CONFIGS = ResourceOperation(Operation.ALTER_CONFIGS, Resource.CLUSTER)
CLUSTER_ACTION = ResourceOperation(Operation.CLUSTER_ACTION, Resource.CLUSTER)
"""What a broker or a controller does for the cluster."""
IDEMPOTENT_WRITE = ResourceOperation(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER)

CREATE_TOKENS = ResourceOperation(Operation.CREATE_TOKENS, Resource.USER)
"""To make a delegation token that another one owns."""
DESCRIBE_TOKENS = ResourceOperation(Operation.DESCRIBE_TOKENS, Resource.USER)
DESCRIBE_TOKEN = ResourceOperation(Operation.DESCRIBE, Resource.DELEGATION_TOKEN)

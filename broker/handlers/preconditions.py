"""Checks that several handlers share: is there an authorizer, and who may do what."""

from __future__ import annotations

from broker.handlers.context import RequestContext
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource

NO_AUTHORIZER = "No Authorizer is configured."
"""Kafka's text for changes of ACLs; its text for DescribeAcls differs a little."""


def security_is_off(context: RequestContext) -> bool:
    """Whether this cluster has no authorizer at all."""
    return not context.services.metadata.config["authorizer.class.name"]


def may_create(context: RequestContext, topic: str) -> bool:
    """Whether the client may create this topic: any topic of the cluster, or this one."""
    return context.is_authorized(
        Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME, is_reported=False
    ) or context.is_authorized(Operation.CREATE, Resource.TOPIC, topic)


def cluster_operations(context: RequestContext) -> int:
    """What the client may do with the cluster; nothing, where it may not even describe it."""
    if not context.is_authorized(
        Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME, is_reported=False
    ):
        return 0
    return context.allowed_operations(Resource.CLUSTER, CLUSTER_NAME)


def is_node_authorized(context: RequestContext) -> bool:
    """Whether the sender is a node of this cluster."""
    return context.is_authorized(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME)

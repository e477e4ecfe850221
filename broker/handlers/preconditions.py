"""Checks that several handlers share: is there an authorizer, and who may use the quorum."""

from __future__ import annotations

from broker.handlers.context import RequestContext
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource

NO_AUTHORIZER = "No Authorizer is configured."
"""Kafka's text for changes of ACLs; its text for DescribeAcls differs a little."""


def security_is_off(context: RequestContext) -> bool:
    """Whether this cluster has no authorizer at all."""
    return not context.services.metadata.config["authorizer.class.name"]


def is_quorum_authorized(context: RequestContext) -> bool:
    """Whether the sender is a node of this cluster."""
    return context.is_authorized(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME)

"""Checks that several handlers share: whether there is an authorizer, a quorum, and who may use
it."""

from __future__ import annotations

from broker.controller.kraft.api import QuorumApi
from broker.controller.kraft.node import RaftNode
from broker.handlers.context import RequestContext
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import CloseConnection

NO_AUTHORIZER = "No Authorizer is configured."
"""Kafka's text for changes of ACLs; its text for DescribeAcls differs a little."""


def security_is_off(context: RequestContext) -> bool:
    """Whether this cluster has no authorizer at all."""
    return not context.services.config["authorizer.class.name"]


def quorum(context: RequestContext) -> QuorumApi:
    """The quorum of this node. A node without one (ZooKeeper) serves none of these APIs."""
    return node_of(context).api


def node_of(context: RequestContext) -> RaftNode:
    """The node itself."""
    node = context.services.quorum
    if node is None:
        raise CloseConnection("this node is part of no quorum")
    return node


def is_quorum_authorized(context: RequestContext) -> bool:
    """Whether the sender is a node of this cluster."""
    return context.is_authorized(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME)

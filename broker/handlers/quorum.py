"""What the handlers of the quorum share: its service, and who may speak to it."""

from __future__ import annotations

from broker.controller.kraft.node import RaftNode
from broker.controller.kraft.service import QuorumService
from broker.handlers.context import CloseClient, RequestContext
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource


def quorum(context: RequestContext) -> QuorumService:
    """The quorum of this node. A node without one (ZooKeeper) serves none of these APIs."""
    return node_of(context).service


def node_of(context: RequestContext) -> RaftNode:
    """The node itself."""
    node = context.services.quorum
    if node is None:
        raise CloseClient("this node is part of no quorum")
    return node


def may_act(context: RequestContext) -> bool:
    """Whether the sender is a node of this cluster."""
    return context.may(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME)

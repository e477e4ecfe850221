"""DescribeCluster (60).

Behaviour: cluster id, controller and brokers. Only broker endpoints are known here; the
controllers' are asked for at a controller listener.

Versions: 0-2. 1 has the endpoint type, 2 fenced brokers.
"""

from __future__ import annotations

from broker.handlers.context import RequestContext
from broker.handlers.topics import endpoint_of
from broker.security.authorizer import CLUSTER_NAME, NOT_ASKED, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS = 1


def handle(request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    """Describe the brokers."""
    image = context.services.image
    if request.endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="this listener knows brokers only",
            cluster_id=image.cluster_id,
        )
    authorized = NOT_ASKED
    if request.include_cluster_authorized_operations:
        authorized = context.services.authorizer.allowed(
            context.session.principal, Resource.CLUSTER, CLUSTER_NAME
        )
    return DescribeClusterResponse(
        endpoint_type=BROKERS,
        cluster_id=image.cluster_id,
        controller_id=context.services.shown_controller_id,
        brokers=_brokers(request.include_fenced_brokers, context),
        cluster_authorized_operations=authorized,
    )


def _brokers(include_fenced: bool, context: RequestContext) -> list[DescribeClusterBroker]:
    image = context.services.image
    found = []
    for broker_id, broker in sorted(image.brokers.items()):
        endpoint = endpoint_of(image, broker_id, context.session.listener)
        if endpoint is None or (broker.fenced and not include_fenced):
            continue
        found.append(
            DescribeClusterBroker(
                broker_id=broker_id,
                host=endpoint.host,
                port=endpoint.port,
                rack=broker.rack,
                is_fenced=broker.fenced,
            )
        )
    return found

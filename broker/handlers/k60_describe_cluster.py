"""DescribeCluster (60).

Behaviour: cluster id, controller and brokers; at a controller's listener the controllers instead
(KIP-919): those that have registered, else the voters of the quorum. Requesting one type of
endpoint on a listener of the other type is an error with its own text.

Versions: 0-2. 1 has the endpoint type, 2 fenced brokers.
"""

from __future__ import annotations

from broker.handlers.context import RequestContext
from broker.handlers.listener_type import ListenerType
from broker.handlers.preconditions import cluster_operations
from broker.handlers.topics import endpoint_of
from broker.security.authorizer import CLUSTER_NAME, NOT_ASKED, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS, CONTROLLERS = 1, 2
NAMES = {BROKERS: "BROKER", CONTROLLERS: "CONTROLLER"}


def handle(request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    """Describe the brokers, or the controllers."""
    image = context.services.metadata.image
    here = CONTROLLERS if context.listener_type is ListenerType.CONTROLLER else BROKERS
    asked = request.endpoint_type
    if asked not in NAMES:
        return _refused(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {asked}")
    if asked != here:
        return _refused(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            f"The request was sent to an endpoint of type {NAMES[here]}, but we wanted an endpoint "
            f"of type {NAMES[asked]}",
        )
    if here == CONTROLLERS and not context.is_authorized(
        Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME
    ):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return _refused(error, error.text)
    authorized = NOT_ASKED
    if request.include_cluster_authorized_operations:
        authorized = cluster_operations(context)
    return DescribeClusterResponse(
        endpoint_type=here,
        cluster_id=image.cluster_id,
        controller_id=(
            context.services.control_plane.advertised_controller_id
            if here == BROKERS
            else context.services.control_plane.controller.leader_id
        ),
        brokers=(
            _brokers(request.include_fenced_brokers, context)
            if here == BROKERS
            else _controllers(context)
        ),
        cluster_authorized_operations=authorized,
    )


def _refused(error: ErrorCode, message: str) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=error, error_message=message)


def _controllers(context: RequestContext) -> list[DescribeClusterBroker]:
    """The registered controllers; for other voters, the endpoints in the quorum."""
    services = context.services
    places = {
        voter.key.id: (voter.endpoints[0].host, voter.endpoints[0].port)
        for voter in services.control_plane.voters
        if voter.endpoints
    }
    for node_id, controller in sorted(services.metadata.image.controllers.items()):
        if controller.endpoints:
            places[node_id] = (controller.endpoints[0].host, controller.endpoints[0].port)
    return [
        DescribeClusterBroker(broker_id=node_id, host=host, port=port)
        for node_id, (host, port) in sorted(places.items())
    ]


def _brokers(include_fenced: bool, context: RequestContext) -> list[DescribeClusterBroker]:
    image = context.services.metadata.image
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

"""ControllerRegistration (70).

Behaviour: a controller registers its listeners and supported feature levels; answered when that is
committed. Tools get them by DescribeCluster at a controller's listener (KIP-919).

Versions: 0.
"""

from __future__ import annotations

from broker.controller.decisions.controllers import register_controller
from broker.handlers.context import RequestContext
from broker.metadata.image import Endpoint, FeatureRange
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)


def handle(
    request: ControllerRegistrationRequest, context: RequestContext
) -> ControllerRegistrationResponse | None:
    """Ask the controller."""
    if not context.is_authorized(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME):
        return _answer(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    endpoints = [
        Endpoint(one.name, one.host, one.port, one.security_protocol) for one in request.listeners
    ]
    features = [
        FeatureRange(one.name, one.min_supported_version, one.max_supported_version)
        for one in request.features
    ]
    context.services.control_plane.controller.write(
        lambda image: register_controller(
            image,
            request.controller_id,
            request.incarnation_id,
            endpoints,
            features,
            request.zk_migration_ready,
        ),
        lambda error: context.reply(_answer(error)),
        lambda error: context.reply(_answer(error)),
    )
    return None


def _answer(error: ErrorCode) -> ControllerRegistrationResponse:
    return ControllerRegistrationResponse(
        error_code=error, error_message=error.text if error else None
    )

"""BrokerRegistration (62).

Behaviour: registers a starting broker as fenced, or refuses it; answered when its record is
committed. Only the active controller serves it; another node responds with NOT_CONTROLLER.

Versions: 0-4. 2 has the log directories, 3 the epoch of the broker's previous registration
(KIP-966).
"""

from __future__ import annotations

from broker.controller.decisions.brokers import Registration, RegistrationResult
from broker.handlers.context import RequestContext
from broker.metadata.image import Endpoint, FeatureRange
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)


def handle(
    request: BrokerRegistrationRequest, context: RequestContext
) -> BrokerRegistrationResponse | None:
    """Register with the active controller."""
    if not context.is_authorized(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME):
        return _failure(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    active = context.services.control_plane.active

    def done(reply: RegistrationResult) -> None:
        if not reply.error:
            context.session.broker_id = request.broker_id
        context.reply(
            BrokerRegistrationResponse(error_code=reply.error, broker_epoch=reply.epoch)
        )

    active.register(_asked(request), done, lambda error: context.reply(_failure(error)))
    return None


def _asked(request: BrokerRegistrationRequest) -> Registration:
    return Registration(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        endpoints=tuple(
            Endpoint(one.name, one.host, one.port, one.security_protocol)
            for one in request.listeners
        ),
        log_dirs=tuple(sorted(request.log_dirs)),
        rack=request.rack,
        cluster_id=request.cluster_id,
        features=tuple(
            FeatureRange(one.name, one.min_supported_version, one.max_supported_version)
            for one in request.features
        ),
        previous_epoch=request.previous_broker_epoch,
        is_migrating_zk_broker=request.is_migrating_zk_broker,
    )


def _failure(error: ErrorCode) -> BrokerRegistrationResponse:
    return BrokerRegistrationResponse(error_code=error)

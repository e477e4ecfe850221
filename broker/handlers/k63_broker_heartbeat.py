"""BrokerHeartbeat (63).

Behaviour: a broker reports that it is alive, how far it has read the metadata, and what it
requests: to serve, to stay fenced, to shut down. The response has its state and whether it may shut
down. The connection is recorded as the broker's; its loss triggers a probe.

Versions: 0-2. 1 has failed log directories, 2 cordoned ones.
"""

from __future__ import annotations

from broker.controller.decisions.heartbeat import Heartbeat, HeartbeatReply
from broker.handlers.context import RequestContext
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse


def handle(
    request: BrokerHeartbeatRequest, context: RequestContext
) -> BrokerHeartbeatResponse | None:
    """Report to the active controller."""
    if not context.is_authorized(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME):
        return _failure(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    active = context.services.control_plane.active

    def done(answer: HeartbeatReply) -> None:
        if not answer.error:
            context.session.broker_id = request.broker_id
        context.reply(
            BrokerHeartbeatResponse(
                error_code=answer.error,
                is_caught_up=answer.is_caught_up,
                is_fenced=answer.is_fenced,
                should_shut_down=answer.should_shut_down,
            )
        )

    active.heartbeat(_heartbeat(request), done, lambda error: context.reply(_failure(error)))
    return None


def _heartbeat(request: BrokerHeartbeatRequest) -> Heartbeat:
    cordoned = request.cordoned_log_dirs
    return Heartbeat(
        broker_id=request.broker_id,
        epoch=request.broker_epoch,
        metadata_offset=request.current_metadata_offset,
        want_fence=request.want_fence,
        want_shut_down=request.want_shut_down,
        offline_log_dirs=tuple(sorted(request.offline_log_dirs)),
        cordoned_log_dirs=None if cordoned is None else tuple(sorted(cordoned)),
    )


def _failure(error: ErrorCode) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(error_code=error)

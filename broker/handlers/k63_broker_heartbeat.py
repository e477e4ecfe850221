"""BrokerHeartbeat (63).

Behaviour: a broker says that it lives, how far it has read the metadata, and what it wants: to
serve, to stay fenced, to shut down. Answered with what it is and whether it may go. The
connection is remembered as the broker's; its loss is news for a probe.

Versions: 0-2. 1 has failed log directories, 2 cordoned ones.
"""

from __future__ import annotations

from broker.controller.decisions.heartbeat import Answer, Heartbeat
from broker.handlers.context import RequestContext
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse


def handle(
    request: BrokerHeartbeatRequest, context: RequestContext
) -> BrokerHeartbeatResponse | None:
    """Tell the active controller's memory of brokers."""
    if not context.may(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME):
        return _failure(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    active = context.services.active
    if active is None:
        return _failure(ErrorCode.NOT_CONTROLLER)

    def done(answer: Answer) -> None:
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

    active.heartbeat(_said(request), done, lambda error: context.reply(_failure(error)))
    return None


def _said(request: BrokerHeartbeatRequest) -> Heartbeat:
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

"""Heartbeat (12).

Behaviour: keeps a member alive; the response says whether the group rebalances.

Versions: 0-4. 3 has static members.
"""

from __future__ import annotations

from broker.handlers.context import RequestContext
from broker.security.authorizer import Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
    """Record the heartbeat."""
    if not context.is_authorized(Operation.READ, Resource.GROUP, request.group_id):
        return HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    error = context.services.coordinators.groups.heartbeat(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id
    )
    return HeartbeatResponse(error_code=error)

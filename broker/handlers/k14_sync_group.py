"""SyncGroup (14).

Behaviour: the leader sends all assignments; each member gets its own once they are stored. From
version 5 on the protocol must be named.

Versions: 0-5. 3 has static members, 5 the protocol's type and name.
"""

from __future__ import annotations

from broker.coordinator.group.effects import SyncRequest, SyncResult
from broker.handlers.context import RequestContext
from broker.security.authorizer import Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.sync_group import SyncGroupRequest, SyncGroupResponse

FIRST_NAMED_PROTOCOL_VERSION = 5


def handle(request: SyncGroupRequest, context: RequestContext) -> None:
    """Pass the request to the group, which responds."""
    if not context.is_authorized(Operation.READ, Resource.GROUP, request.group_id):
        context.reply(_response(SyncResult(ErrorCode.GROUP_AUTHORIZATION_FAILED)))
        return
    named = request.protocol_type is not None and request.protocol_name is not None
    if context.api_version >= FIRST_NAMED_PROTOCOL_VERSION and not named:
        context.reply(_response(SyncResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)))
        return
    context.services.coordinators.groups.sync(
        request.group_id,
        SyncRequest(
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            generation=request.generation_id,
            reply=lambda result: context.reply(_response(result)),
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignments={given.member_id: bytes(given.assignment) for given in request.assignments},
        ),
    )


def _response(result: SyncResult) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )

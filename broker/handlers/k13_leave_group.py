"""LeaveGroup (13).

Behaviour: members leave at once instead of by timeout. From version 3 on several may be named, also
static ones by their instance id alone, each with its own error.

Versions: 0-5. 3 has the list of members, 5 their reasons.
"""

from __future__ import annotations

from broker.handlers.context import RequestContext
from broker.security.authorizer import Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

FIRST_BATCHED_VERSION = 3
_OF_THE_GROUP = (
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)


def handle(request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse:
    """Remove each member."""
    if not context.is_authorized(Operation.READ, Resource.GROUP, request.group_id):
        return LeaveGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    groups = context.services.coordinators.groups
    if not request.group_id:
        return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    if context.api_version < FIRST_BATCHED_VERSION:
        error, _ = groups.leave(request.group_id, request.member_id, None)
        return LeaveGroupResponse(error_code=error)
    members = [_leave(request.group_id, member, context) for member in request.members]
    for member in members:
        if member.error_code in _OF_THE_GROUP:
            return LeaveGroupResponse(error_code=member.error_code)
    return LeaveGroupResponse(members=members)


def _leave(group_id: str, member: MemberIdentity, context: RequestContext) -> MemberResponse:
    groups = context.services.coordinators.groups
    error, _ = groups.leave(group_id, member.member_id, member.group_instance_id)
    return MemberResponse(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        error_code=error,
    )

"""DescribeGroups (15).

Behaviour: state, protocol and members of groups. An unknown group is reported as Dead, from version
6 on with GROUP_ID_NOT_FOUND.

Versions: 0-6. 3 may ask for authorized operations, 4 has static members, 6 error messages.
"""

from __future__ import annotations

from broker.coordinator.group.classic_group import ClassicGroup
from broker.coordinator.group.states import GroupState
from broker.handlers.context import RequestContext
from broker.security.authorizer import NOT_ASKED, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

FIRST_NOT_FOUND_VERSION = 6


def handle(request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
    """Describe each group."""
    groups = [_describe(group_id, context) for group_id in request.groups]
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code:
                continue
            group.authorized_operations = context.allowed_operations(
                Resource.GROUP, group.group_id
            )
    return DescribeGroupsResponse(groups=groups)


def _describe(group_id: str, context: RequestContext) -> DescribedGroup:
    if not context.is_authorized(Operation.DESCRIBE, Resource.GROUP, group_id):
        return _failure(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED, "")
    group = context.services.coordinators.groups.describe(group_id)
    if group is ErrorCode.GROUP_ID_NOT_FOUND:
        is_named = context.api_version >= FIRST_NOT_FOUND_VERSION
        return _failure(
            group_id,
            ErrorCode.GROUP_ID_NOT_FOUND if is_named else ErrorCode.NONE,
            GroupState.DEAD.value,
            f"Group {group_id} not found." if is_named else None,
        )
    if isinstance(group, ErrorCode):
        return _failure(group_id, group, "")
    return _described(group)


def _described(group: ClassicGroup) -> DescribedGroup:
    stable = group.state is GroupState.STABLE
    protocol_name = group.protocol_name if stable else None
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol_name or "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(protocol_name) if stable else b"",
                member_assignment=member.assignment,
            )
            for member in group.members
        ],
        authorized_operations=NOT_ASKED,
    )


def _failure(
    group_id: str, error: ErrorCode, state: str, message: str | None = None
) -> DescribedGroup:
    return DescribedGroup(
        error_code=error,
        error_message=message,
        group_id=group_id,
        group_state=state,
        protocol_type="",
        protocol_data="",
    )

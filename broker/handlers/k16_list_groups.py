"""ListGroups (16).

Behaviour: the groups this broker coordinates, filtered by state and type without regard to case.

Versions: 0-5. 4 filters by state, 5 by type.
"""

from __future__ import annotations

from broker.handlers.context import RequestContext
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

CLASSIC = "classic"


def handle(request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
    """List what matches."""
    groups = context.services.coordinators.groups
    if groups.is_loading:
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    if types and CLASSIC not in types:
        return ListGroupsResponse()
    sees_all = context.is_authorized(
        Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME, is_reported=False
    )
    return ListGroupsResponse(
        groups=[
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value,
                group_type=CLASSIC,
            )
            for group in groups.groups()
            if (not states or group.state.value.lower() in states)
            and (
                sees_all
                or context.is_authorized(
                    Operation.DESCRIBE, Resource.GROUP, group.group_id, is_reported=False
                )
            )
        ]
    )

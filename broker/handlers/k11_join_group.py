"""JoinGroup (11).

Behaviour: the member joins the group's next generation; answered when all members have joined or
timed out. From version 4 on a new dynamic member first gets its id and must join again with it
(KIP-394).

Versions: 0-9. 1 has the rebalance time-out, 5 static members, 7 the protocol's type, 9 lets a
static leader skip the assignment.
"""

from __future__ import annotations

import uuid

from broker.coordinator.group.effects import JoinRequest, JoinResult
from broker.handlers.context import RequestContext
from broker.security.authorizer import Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)

FIRST_REBALANCE_TIMEOUT_VERSION = 1
FIRST_MEMBER_ID_REQUIRED_VERSION = 4
FIRST_NULLABLE_PROTOCOL_VERSION = 7
FIRST_SKIP_ASSIGNMENT_VERSION = 9


def handle(request: JoinGroupRequest, context: RequestContext) -> None:
    """Pass the request to the group, which responds."""
    if not context.is_authorized(Operation.READ, Resource.GROUP, request.group_id):
        refused = JoinResult(ErrorCode.GROUP_AUTHORIZATION_FAILED, request.member_id)
        context.reply(_response(refused, context.api_version))
        return
    version = context.api_version
    timeout_ms = request.rebalance_timeout_ms
    if version < FIRST_REBALANCE_TIMEOUT_VERSION:
        timeout_ms = request.session_timeout_ms
    context.services.coordinators.groups.join(
        request.group_id,
        JoinRequest(
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            client_id=context.client_id or "",
            client_host=f"/{context.session.host}",
            rebalance_timeout_ms=timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=tuple(
                (protocol.name, bytes(protocol.metadata)) for protocol in request.protocols
            ),
            reply=lambda result: context.reply(_response(result, version)),
            fresh_member_id=_fresh_id(request, context),
            require_known_member_id=version >= FIRST_MEMBER_ID_REQUIRED_VERSION,
            supports_skip_assignment=version >= FIRST_SKIP_ASSIGNMENT_VERSION,
        ),
    )


def _fresh_id(request: JoinGroupRequest, context: RequestContext) -> str:
    """An id for a new member, in Kafka's form: its client or instance id, then a unique part."""
    name = request.group_instance_id
    if name is None:
        name = context.client_id or ""
    return f"{name}-{uuid.UUID(bytes=context.services.clock.new_uuid())}"


def _response(result: JoinResult, version: int) -> JoinGroupResponse:
    name = result.protocol_name
    if version < FIRST_NULLABLE_PROTOCOL_VERSION:
        name = name or ""
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name=name,
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata,
            )
            for member in result.members
        ],
    )

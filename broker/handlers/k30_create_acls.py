"""CreateAcls (30).

Behaviour: stores ACLs as records; each succeeds or fails for itself, an existing one is no error.
Without `authorizer.class.name`: SECURITY_DISABLED, as in Kafka.

Versions: 1-3. 3 has user resources.
"""

from __future__ import annotations

from itertools import repeat

from broker.controller.decisions.acls import AclResult, create_acls
from broker.handlers.context import RequestContext
from broker.handlers.preconditions import NO_AUTHORIZER, security_is_off
from broker.metadata.image import AclImage
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)


def handle(request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse | None:
    """Ask the controller."""
    if not context.is_authorized(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME):
        return _all_failed(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if security_is_off(context):
        return _all_failed(request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    clock = context.services.clock
    ids = (clock.new_uuid() for _ in repeat(None))
    asked = [_asked(creation) for creation in request.creations]

    def done(results: tuple[AclResult, ...]) -> None:
        context.reply(
            CreateAclsResponse(
                results=[
                    AclCreationResult(error_code=result.error, error_message=result.message)
                    for result in results
                ]
            )
        )

    context.services.control_plane.controller.write(
        lambda image: create_acls(image, asked, ids),
        done,
        lambda error: context.reply_error(ApiKey.CREATE_ACLS, request, error),
    )
    return None


def _asked(creation: AclCreation) -> AclImage:
    return AclImage(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def _all_failed(
    request: CreateAclsRequest, error: ErrorCode, message: str | None = None
) -> CreateAclsResponse:
    failed = AclCreationResult(error_code=error, error_message=message or error.text)
    return CreateAclsResponse(results=[failed for _ in request.creations])

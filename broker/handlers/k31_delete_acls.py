"""DeleteAcls (31).

Behaviour: removes the ACLs that match each filter and lists them. Without `authorizer.class.name`:
SECURITY_DISABLED, as in Kafka.

Versions: 1-3. 3 has user resources.
"""

from __future__ import annotations

from dataclasses import asdict

from broker.controller.decisions.acls import AclFilter, delete_acls
from broker.handlers.context import RequestContext
from broker.handlers.preconditions import NO_AUTHORIZER, security_is_off
from broker.metadata.image import AclImage
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


def handle(request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse | None:
    """Ask the controller."""
    if not context.is_authorized(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME):
        return _all_failed(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if security_is_off(context):
        return _all_failed(request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    filters = [AclFilter.of(one) for one in request.filters]

    def done(found: tuple[tuple[AclImage, ...], ...]) -> None:
        context.reply(DeleteAclsResponse(filter_results=[_result(acls) for acls in found]))

    context.services.control_plane.controller.write(
        lambda image: delete_acls(image, filters),
        done,
        lambda error: context.reply_error(ApiKey.DELETE_ACLS, request, error),
    )
    return None


def _result(acls: tuple[AclImage, ...]) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(
        error_message=None,
        matching_acls=[
            DeleteAclsMatchingAcl(error_message=None, **asdict(acl)) for acl in acls
        ],
    )


def _all_failed(
    request: DeleteAclsRequest, error: ErrorCode, message: str | None = None
) -> DeleteAclsResponse:
    failed = DeleteAclsFilterResult(error_code=error, error_message=message or error.text)
    return DeleteAclsResponse(filter_results=[failed for _ in request.filters])

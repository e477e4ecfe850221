"""DescribeAcls (29).

Behaviour: the ACLs that match a filter, from the image. Without `authorizer.class.name`:
SECURITY_DISABLED, as in Kafka.

Versions: 1-3. 3 has user resources.
"""

from __future__ import annotations

from broker.controller.decisions.acls import AclFilter, find_acls
from broker.handlers.context import RequestContext
from broker.handlers.preconditions import security_is_off
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


def handle(request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
    """List the matching ACLs."""
    if not context.is_authorized(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        return _failed(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if security_is_off(context):
        return _failed(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    wanted = AclFilter.of(request)
    found: dict[tuple[int, str, int], list[AclDescription]] = {}
    for _, acl in find_acls(context.services.metadata.image, wanted):
        key = (acl.resource_type, acl.resource_name, acl.pattern_type)
        found.setdefault(key, []).append(
            AclDescription(
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission_type,
            )
        )
    return DescribeAclsResponse(
        error_message=None,
        resources=[
            DescribeAclsResource(
                resource_type=kind, resource_name=name, pattern_type=pattern, acls=acls
            )
            for (kind, name, pattern), acls in found.items()
        ],
    )


def _failed(error: ErrorCode, message: str | None = None) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=error, error_message=message or error.text)

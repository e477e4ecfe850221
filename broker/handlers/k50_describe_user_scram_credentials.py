"""DescribeUserScramCredentials (50).

Behaviour: the mechanisms and iterations of users' credentials, from the image; never salts or keys.
kafka-configs requests it whenever it describes users. A named user without credentials is
RESOURCE_NOT_FOUND.

Versions: 0.
"""

from __future__ import annotations

from broker.handlers.context import RequestContext
from broker.metadata.image import MetadataImage
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(
    request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse | None:
    """Describe the users named, or all that have credentials."""
    if not context.is_authorized(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        context.reply_error(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, request, refused)
        return None
    held = _by_user(context.services.metadata.image)
    names = [user.name for user in request.users or ()] or sorted(held)
    return DescribeUserScramCredentialsResponse(
        results=[_result(name, names, held) for name in dict.fromkeys(names)]
    )


def _by_user(image: MetadataImage) -> dict[str, list[CredentialInfo]]:
    held: dict[str, list[CredentialInfo]] = {}
    for (mechanism, user), record in sorted(image.scram.items()):
        held.setdefault(user, []).append(CredentialInfo(mechanism, record.iterations))
    return held


def _result(
    name: str, asked: list[str], held: dict[str, list[CredentialInfo]]
) -> DescribeUserScramCredentialsResult:
    if asked.count(name) > 1:
        return DescribeUserScramCredentialsResult(
            name,
            ErrorCode.DUPLICATE_RESOURCE,
            "Cannot describe SCRAM credentials for the same user twice in a single request: "
            f"{name}",
        )
    if name not in held:
        message = f"Attempt to describe a user credential that does not exist: {name}"
        return DescribeUserScramCredentialsResult(name, ErrorCode.RESOURCE_NOT_FOUND, message)
    return DescribeUserScramCredentialsResult(name, 0, "", held[name])

"""AlterUserScramCredentials (51).

Behaviour: sets and removes credentials of users, who may log in by SCRAM with them at once on every
broker. The client sends the salted password; what is kept of it cannot be logged in with. A user
that is named twice, be it with two mechanisms, is refused, as Kafka's controller does.

Versions: 0.
"""

from __future__ import annotations

from broker.controller.decisions.decision import Refusal
from broker.controller.decisions.scram_credentials import (
    CredentialChange,
    CredentialDeletion,
    CredentialUpsertion,
    alter_credentials,
)
from broker.handlers.context import RequestContext
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)


def handle(
    request: AlterUserScramCredentialsRequest, context: RequestContext
) -> AlterUserScramCredentialsResponse | None:
    """Ask the controller."""
    key = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
    if not context.is_authorized(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME):
        context.reply_error(key, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return None
    changes: list[CredentialChange] = [
        CredentialDeletion(one.name, one.mechanism) for one in request.deletions
    ]
    changes += [
        CredentialUpsertion(
            one.name, one.mechanism, one.iterations, bytes(one.salt), bytes(one.salted_password)
        )
        for one in request.upsertions
    ]
    context.services.control_plane.controller.write(
        lambda image: alter_credentials(image, changes),
        lambda results: context.reply(_response(results)),
        lambda error: context.reply_error(key, request, error),
    )
    return None


def _response(
    results: tuple[tuple[str, Refusal | None], ...],
) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user, 0, None)
            if refusal is None
            else AlterUserScramCredentialsResult(user, refusal.error, refusal.message)
            for user, refusal in results
        ]
    )

"""AlterClientQuotas (49).

Behaviour: sets and removes quotas of users, client ids and addresses; an entity changes as a
whole or not at all (KIP-546).

Versions: 0-1.
"""

from __future__ import annotations

from broker.controller.decisions.quotas import QuotaChange, QuotaResult, alter_quotas
from broker.handlers.context import RequestContext
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityDataInResponse,
    EntryDataInRequest,
    EntryDataInResponse,
)


def handle(
    request: AlterClientQuotasRequest, context: RequestContext
) -> AlterClientQuotasResponse | None:
    """Ask the controller."""
    changes = [_change(entry) for entry in request.entries]
    if not context.is_authorized(Operation.ALTER_CONFIGS, Resource.CLUSTER, CLUSTER_NAME):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return _response(tuple(QuotaResult(one.entity, error, error.text) for one in changes))
    context.services.control_plane.controller.write(
        lambda image: alter_quotas(image, changes, request.validate_only),
        lambda results: context.reply(_response(results)),
        lambda error: context.reply_error(ApiKey.ALTER_CLIENT_QUOTAS, request, error),
    )
    return None


def _change(entry: EntryDataInRequest) -> QuotaChange:
    return QuotaChange(
        tuple((part.entity_type, part.entity_name) for part in entry.entity),
        tuple((op.key, None if op.remove else op.value) for op in entry.ops),
    )


def _response(results: tuple[QuotaResult, ...]) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            EntryDataInResponse(
                error_code=result.error,
                error_message=result.message,
                entity=[
                    EntityDataInResponse(entity_type=kind, entity_name=name)
                    for kind, name in result.entity
                ],
            )
            for result in results
        ]
    )

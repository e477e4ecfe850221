"""DescribeClientQuotas (48).

Behaviour: quotas of users, client ids and addresses that fit a filter, from the image (KIP-546).

Versions: 0-1.
"""

from __future__ import annotations

from broker.controller.decisions.quotas import CLIENT_ID, IP, USER, Filter, Match, find_quotas
from broker.handlers.context import RequestContext
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)


def handle(
    request: DescribeClientQuotasRequest, context: RequestContext
) -> DescribeClientQuotasResponse:
    """Look through the quotas."""
    if not context.may(Operation.DESCRIBE_CONFIGS, Resource.CLUSTER, CLUSTER_NAME):
        return _failed(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    kinds = [one.entity_type for one in request.components]
    if len(set(kinds)) != len(kinds) or not set(kinds) <= {USER, CLIENT_ID, IP}:
        return _failed(ErrorCode.INVALID_REQUEST)
    if any(one.match_type not in set(Match) for one in request.components):
        return _failed(ErrorCode.INVALID_REQUEST)
    filters = [
        Filter(one.entity_type, Match(one.match_type), one.match) for one in request.components
    ]
    found = find_quotas(context.services.image, filters, request.strict)
    return DescribeClientQuotasResponse(
        error_message=None,
        entries=[
            EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                values=[ValueData(key=key, value=value) for key, value in sorted(values.items())],
            )
            for entity, values in found
        ],
    )


def _failed(error: ErrorCode) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=error, error_message=error.text, entries=None)

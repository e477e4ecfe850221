"""DescribeClientQuotas (48).

Behaviour: quotas of users, client ids and addresses that match a filter, from the image (KIP-546).

Versions: 0-1.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.controller.decisions.quotas import Filter, Match, find_quotas
from broker.handlers.context import RequestContext
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from bus.protocol.quota_entities import CLIENT_ID, IP, USER


def handle(
    request: DescribeClientQuotasRequest, context: RequestContext
) -> DescribeClientQuotasResponse:
    """List the matching quotas."""
    if not context.is_authorized(Operation.DESCRIBE_CONFIGS, Resource.CLUSTER, CLUSTER_NAME):
        return _failed(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    refused = _refusal(request.components)
    if refused is not None:
        return _failed(*refused)
    filters = [
        Filter(one.entity_type, Match(one.match_type), one.match) for one in request.components
    ]
    found = find_quotas(context.services.metadata.image, filters, request.strict)
    return DescribeClientQuotasResponse(
        error_message="",
        entries=[
            EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                values=[ValueData(key=key, value=value) for key, value in sorted(values.items())],
            )
            for entity, values in found
        ],
    )


def _refusal(components: Sequence[ComponentData]) -> tuple[ErrorCode, str] | None:
    """The first error in the filter, in Kafka's words."""
    kinds = [one.entity_type for one in components]
    for at, one in enumerate(components):
        kind = one.entity_type
        if one.match_type not in set(Match):
            return ErrorCode.INVALID_REQUEST, f"Unknown match type {one.match_type}"
        if one.match_type == Match.EXACT and one.match is None:
            what = "EXACT, but set match string to null."
            return ErrorCode.INVALID_REQUEST, f"Request specified MATCH_TYPE_{what}"
        if one.match_type != Match.EXACT and one.match is not None:
            what = f"{Match(one.match_type).name}, but also specified a match string."
            return ErrorCode.INVALID_REQUEST, f"Request specified MATCH_TYPE_{what}"
        if not kind:
            return ErrorCode.INVALID_REQUEST, "Invalid empty entity type."
        if kind in kinds[:at]:
            message = f"Entity type {kind} cannot appear more than once in the filter."
            return ErrorCode.INVALID_REQUEST, message
        if kind not in (USER, CLIENT_ID, IP):
            return ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}"
    if IP in kinds and len(kinds) > 1:
        return ErrorCode.INVALID_REQUEST, (
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component."
        )
    return None


def _failed(error: ErrorCode, message: str | None = None) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(
        error_code=error, error_message=message or error.text, entries=None
    )

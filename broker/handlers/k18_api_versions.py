"""ApiVersions (18).

Behaviour: the APIs served on this type of listener, computed from the registry, and the features.
A feature is finalized only if this cluster has it; `transaction.version` is absent until
transactions are served, `group.version` until KIP-848 is. An unknown version is answered in version
0 with error 35 and the range, and the response header is always version 0 (KIP-511). The response
is built once per version and image: every connection begins with this request. A client that took
this broker for another node, or for one of another cluster, is told to start again from its
bootstrap servers (KIP-1242); a controller does not look, as in Kafka.

Versions: 0-5. 3 has client software names and features, 4 allows feature minimum 0, 5 has the
cluster and the node that the client means.
"""

from __future__ import annotations

import re

from broker.handlers.context import RequestContext
from broker.handlers.listener_type import ListenerType
from broker.handlers.registry import advertised_ranges, version_range
from broker.metadata.versions import KRAFT_VERSION, SUPPORTED
from bus.errors import ErrorCode
from bus.protocol.generated.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

FIRST_NAMED_VERSION = 3
FIRST_ZERO_VERSION = 4
FIRST_ADDRESSED_VERSION = 5
NO_NODE = -1
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")


def handle(request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    """Record the client's software, list what is served; or say what is wrong with the request."""
    error = _error(request, context)
    if error:
        return ApiVersionsResponse(error_code=error)
    if context.api_version >= FIRST_NAMED_VERSION:
        session = context.session
        session.software_name = request.client_software_name
        session.software_version = request.client_software_version
    return _known_answer(context)


def _error(request: ApiVersionsRequest, context: RequestContext) -> ErrorCode:
    if context.api_version >= FIRST_NAMED_VERSION:
        named = (request.client_software_name, request.client_software_version)
        if not all(_SOFTWARE.fullmatch(part) for part in named):
            return ErrorCode.INVALID_REQUEST
    if context.api_version < FIRST_ADDRESSED_VERSION:
        return ErrorCode.NONE
    if (request.cluster_id is None) != (request.node_id == NO_NODE):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE if _is_meant(request, context) else ErrorCode.REBOOTSTRAP_REQUIRED


def _is_meant(request: ApiVersionsRequest, context: RequestContext) -> bool:
    if request.cluster_id is None or ListenerType.CONTROLLER in context.listener_type:
        return True
    services = context.services
    meant = (request.cluster_id, request.node_id)
    return meant == (services.metadata.image.cluster_id, services.node_id)


def _known_answer(context: RequestContext) -> ApiVersionsResponse:
    """Return the same object while nothing changes, so that it is encoded only once too."""
    services, listener_type, version = context.services, context.listener_type, context.api_version
    image = services.metadata.image
    made_from = image.offset, image.features, services.control_plane.kraft_version
    known = services.metadata.api_versions.get((listener_type, version))
    if known is not None and known[0] == made_from:
        return known[1]
    answer = _answer(context)
    services.metadata.api_versions[listener_type, version] = made_from, answer
    return answer


def _answer(context: RequestContext) -> ApiVersionsResponse:
    if ListenerType.ZOOKEEPER_BROKER in context.listener_type:
        return ApiVersionsResponse(api_keys=_keys(context.listener_type))
    image = context.services.metadata.image
    levels = dict(image.features)
    if context.services.control_plane.kraft_version:
        levels[KRAFT_VERSION] = context.services.control_plane.kraft_version
    return ApiVersionsResponse(
        api_keys=_keys(context.listener_type),
        supported_features=[
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in SUPPORTED.items()
            if low or context.api_version >= FIRST_ZERO_VERSION
        ],
        finalized_features_epoch=image.offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in sorted(levels.items())
        ],
    )


def unsupported() -> ApiVersionsResponse:
    """The response to an unknown version."""
    low, high = version_range(18)
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key=18, min_version=low, max_version=high)],
    )


def _keys(listener_type: ListenerType) -> list[ApiVersion]:
    return [
        ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in advertised_ranges(listener_type).items()
    ]

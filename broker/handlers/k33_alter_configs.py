"""AlterConfigs (33), the older API.

Behaviour: the given values replace everything that was set on the resource.

Versions: 0-2.
"""

from __future__ import annotations

from broker.controller.decisions.configs import (
    Alteration,
    AlterOperation,
    ConfigResult,
    ResourceAlteration,
)
from broker.handlers.alter_configs import alter
from broker.handlers.context import RequestContext
from bus.protocol.apis import ApiKey
from bus.protocol.generated.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def handle(request: AlterConfigsRequest, context: RequestContext) -> None:
    """Ask the controller, or forward the request to it."""

    alter(
        ApiKey.ALTER_CONFIGS,
        request,
        [_alteration(resource) for resource in request.resources],
        request.validate_only,
        context,
        lambda results: AlterConfigsResponse(responses=[_result(one) for one in results]),
    )


def _alteration(resource: AlterConfigsResource) -> ResourceAlteration:
    return ResourceAlteration(
        resource.resource_type,
        resource.resource_name,
        tuple(
            Alteration(config.name, AlterOperation.SET, config.value) for config in resource.configs
        ),
        replace_all=True,
    )


def _result(result: ConfigResult) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=result.error,
        error_message=result.message,
        resource_type=result.resource_type,
        resource_name=result.name,
    )

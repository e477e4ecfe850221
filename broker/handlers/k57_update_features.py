"""UpdateFeatures (57).

Behaviour: raises or lowers feature levels, all or none. From version 2 on the answer has one error
for all, before that one per feature.

Versions: 0-2. 1 has the upgrade type and a dry run.
"""

from __future__ import annotations

from broker.controller.decisions.features import (
    FeatureResult,
    FeatureUpdate,
    UpgradeType,
    update_features,
)
from broker.controller.decisions.rules import Rules
from broker.handlers.context import RequestContext
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

FIRST_TYPED_VERSION = 1
FIRST_WHOLE_VERSION = 2


def handle(
    request: UpdateFeaturesRequest, context: RequestContext
) -> UpdateFeaturesResponse | None:
    """Ask the controller."""
    if not context.may(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return UpdateFeaturesResponse(error_code=error, error_message=error.text)
    updates = [_update(one, context.api_version) for one in request.feature_updates]
    if any(update.way is UpgradeType.UNKNOWN for update in updates):
        return UpdateFeaturesResponse(
            error_code=ErrorCode.INVALID_REQUEST, error_message="unknown upgrade type"
        )
    rules = Rules.of(context.services.config)
    context.services.controller.write(
        lambda image: update_features(image, rules, updates, request.validate_only),
        lambda results: context.reply(_response(results, context.api_version)),
        lambda error: context.refuse(ApiKey.UPDATE_FEATURES, request, error),
    )
    return None


def _update(asked: FeatureUpdateKey, version: int) -> FeatureUpdate:
    if version < FIRST_TYPED_VERSION:
        way = UpgradeType.SAFE_DOWNGRADE if asked.allow_downgrade else UpgradeType.UPGRADE
    elif asked.upgrade_type in set(UpgradeType):
        way = UpgradeType(asked.upgrade_type)
    else:
        way = UpgradeType.UNKNOWN
    return FeatureUpdate(asked.feature, asked.max_version_level, way)


def _response(results: tuple[FeatureResult, ...], version: int) -> UpdateFeaturesResponse:
    failed = [result for result in results if result.error]
    if version < FIRST_WHOLE_VERSION:
        return UpdateFeaturesResponse(
            error_message=None,
            results=[
                UpdatableFeatureResult(
                    feature=result.name, error_code=result.error, error_message=result.message
                )
                for result in results
            ],
        )
    if not failed:
        return UpdateFeaturesResponse(error_message=None)
    first = failed[0]
    return UpdateFeaturesResponse(
        error_code=first.error,
        error_message=(
            f"The update failed for all features since the following feature had an error: "
            f"{first.message}"
        ),
    )

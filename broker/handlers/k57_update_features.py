"""UpdateFeatures (57).

Behaviour: raises or lowers feature levels, all or none; kraft.version from 0 to 1 only, which the
quorum does before the others are written. The answer has one error for all; before version 2 each
feature is named where all went well.

Versions: 0-2. 1 has the upgrade type and a dry run.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.controller.decisions.features import (
    FeatureResult,
    FeatureUpdate,
    UpgradeType,
    update_features,
)
from broker.controller.decisions.partition_policy import PartitionPolicy
from broker.controller.kraft.raft.voter_changes import VoterChangeResult
from broker.controller.kraft.voter_requests import raise_version
from broker.handlers.context import RequestContext
from broker.metadata.versions import KRAFT_VERSION
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
    if not context.is_authorized(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return UpdateFeaturesResponse(error_code=error, error_message=error.text)
    updates = [_update(one, context.api_version) for one in request.feature_updates]
    kraft = next((update for update in updates if update.name == KRAFT_VERSION), None)
    control_plane = context.services.control_plane
    if kraft is None or not control_plane.has_quorum:
        _write(request, context, updates, request.validate_only, _reply(context))
        return None

    def checked(results: tuple[FeatureResult, ...]) -> None:
        if any(result.error for result in results):
            _reply(context)(results)
        else:
            raise_version(control_plane.quorum, kraft.level, request.validate_only, raised)

    def raised(outcome: VoterChangeResult) -> None:
        if outcome.error is ErrorCode.INVALID_UPDATE_VERSION:
            _reply(context)((FeatureResult(KRAFT_VERSION, outcome.error, outcome.message),))
        elif outcome.error:
            context.reply_error(ApiKey.UPDATE_FEATURES, request, outcome.error)
        else:
            _write(request, context, updates, request.validate_only, _reply(context))

    # The quorum's own version first: only the voters know whether it can be raised.
    _write(request, context, updates, True, checked)
    return None


def _write(
    request: UpdateFeaturesRequest,
    context: RequestContext,
    updates: list[FeatureUpdate],
    validate_only: bool,
    on_done: Callable[[tuple[FeatureResult, ...]], None],
) -> None:
    control_plane = context.services.control_plane
    rules = PartitionPolicy.of(context.services.metadata.config)
    level = control_plane.kraft_version if control_plane.has_quorum else None
    control_plane.controller.write(
        lambda image: update_features(
            image, rules, updates, validate_only, level, context.services.node_id
        ),
        on_done,
        lambda error: context.reply_error(ApiKey.UPDATE_FEATURES, request, error),
    )


def _reply(context: RequestContext) -> Callable[[tuple[FeatureResult, ...]], None]:
    return lambda results: context.reply(_response(results, context.api_version))


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
    if failed:
        return UpdateFeaturesResponse(
            error_code=failed[0].error,
            error_message=(
                f"The update failed for all features since the following feature had an error: "
                f"{failed[0].message}"
            ),
        )
    # The text that Kafka has for no error.
    done = [UpdatableFeatureResult(feature=result.name, error_message="NONE") for result in results]
    return UpdateFeaturesResponse(
        error_message=None, results=done if version < FIRST_WHOLE_VERSION else []
    )

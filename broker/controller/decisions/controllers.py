"""Decisions about controllers: they say where they listen and what they can work with (KIP-919);
one that will not come back is unregistered.

In: the image, what a controller says of itself, an id. Out: a record. Never: who votes, which is
the quorum's affair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from broker.controller.decisions.decision import Decision
from broker.metadata.image import Endpoint, FeatureRange, MetadataImage
from broker.metadata.versions import CONTROLLER_UNREGISTRATION_LEVEL, METADATA_VERSION
from bus.errors import ErrorCode
from bus.protocol.generated.metadata_records import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
    UnregisterControllerRecord,
)


def register_controller(
    image: MetadataImage,
    controller_id: int,
    incarnation_id: bytes,
    endpoints: Sequence[Endpoint],
    features: Sequence[FeatureRange],
    zk_migration_ready: bool = False,
) -> Decision[ErrorCode]:
    """Take a controller's word; one that cannot work with the cluster's level is refused."""
    level = image.metadata_version
    offered = {one.name: one for one in features}.get(METADATA_VERSION)
    if level and (offered is None or not offered.min_level <= level <= offered.max_level):
        return Decision((), ErrorCode.UNSUPPORTED_VERSION)
    held = image.controllers.get(controller_id)
    if (
        held is not None
        and held.incarnation_id == incarnation_id
        and held.endpoints == tuple(endpoints)
    ):
        return Decision((), ErrorCode.NONE)  # its answer was lost
    record = RegisterControllerRecord(
        controller_id=controller_id,
        incarnation_id=incarnation_id,
        zk_migration_ready=zk_migration_ready,
        end_points=[
            ControllerEndpoint(
                name=end.name,
                host=end.host,
                port=end.port,
                security_protocol=end.security_protocol,
            )
            for end in endpoints
        ],
        features=[
            ControllerFeature(
                name=one.name,
                min_supported_version=one.min_level,
                max_supported_version=one.max_level,
            )
            for one in sorted(features, key=lambda one: one.name)
        ],
    )
    return Decision((record,), ErrorCode.NONE)


@dataclass(frozen=True, slots=True)
class ControllerRemoval:
    """What became of a request to unregister a controller."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


def unregister_controller(image: MetadataImage, controller_id: int) -> Decision[ControllerRemoval]:
    """Removes the registration of a controller; one that still runs registers again by itself."""
    if image.metadata_version < CONTROLLER_UNREGISTRATION_LEVEL:
        message = "The current MetadataVersion is too old to support controller unregistration."
        return Decision((), ControllerRemoval(ErrorCode.UNSUPPORTED_VERSION, message))
    if controller_id not in image.controllers:
        message = f"Controller ID {controller_id} is not currently registered."
        return Decision((), ControllerRemoval(ErrorCode.CONTROLLER_ID_NOT_REGISTERED, message))
    record = UnregisterControllerRecord(controller_id=controller_id)
    return Decision((record,), ControllerRemoval())

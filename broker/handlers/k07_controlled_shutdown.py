"""ControlledShutdown (7), from a broker that is about to stop to the ZooKeeper controller.

Behaviour: other in-sync replicas become leaders of what the broker leads, and it leaves the in-sync
sets; the response names what it still leads because no other replica may (C-BRK-13). The broker
retries until nothing is left. NOT_CONTROLLER elsewhere, STALE_BROKER_EPOCH for an earlier
registration.

Versions: 0-3. From 2 on the broker says its epoch.
"""

from __future__ import annotations

from broker.handlers.context import RequestContext
from broker.handlers.preconditions import is_node_authorized
from bus.errors import ErrorCode
from bus.protocol.generated.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)


def handle(
    request: ControlledShutdownRequest, context: RequestContext
) -> ControlledShutdownResponse | None:
    """Ask the controller."""
    if not is_node_authorized(context):
        return ControlledShutdownResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    def done(known: bool, left: list[tuple[str, int]]) -> None:
        error = ErrorCode.NONE if known else ErrorCode.STALE_BROKER_EPOCH
        remaining = [
            RemainingPartition(topic_name=topic, partition_index=index) for topic, index in left
        ]
        context.reply(
            ControlledShutdownResponse(error_code=error, remaining_partitions=remaining)
        )

    def failed(error: ErrorCode) -> None:
        context.reply(ControlledShutdownResponse(error_code=error))

    context.services.control_plane.handle_controlled_shutdown(
        request.broker_id, request.broker_epoch, done, failed
    )
    return None

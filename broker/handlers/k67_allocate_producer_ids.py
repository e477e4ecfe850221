"""AllocateProducerIds (67).

Behaviour: the next block of producer ids for a broker, in the range of the site's number. The
broker must send its current epoch.

Versions: 0.
"""

from __future__ import annotations

from broker.controller.decisions.cluster import ProducerIdBlock, allocate_producer_ids
from broker.controller.decisions.decision import Decision
from broker.handlers.context import RequestContext
from broker.metadata.image import MetadataImage
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)


def handle(
    request: AllocateProducerIdsRequest, context: RequestContext
) -> AllocateProducerIdsResponse | None:
    """Ask the controller."""
    if not context.is_authorized(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME):
        return _failure(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    services = context.services

    def decide(image: MetadataImage) -> Decision[ProducerIdBlock | None]:
        broker = image.brokers.get(request.broker_id)
        if broker is None or broker.epoch != request.broker_epoch:
            return Decision((), None)
        decision = allocate_producer_ids(
            image, request.broker_id, request.broker_epoch, services.control_plane.active.site
        )
        return Decision(decision.records, decision.reply)

    def done(block: ProducerIdBlock | None) -> None:
        if block is None:
            context.reply(_failure(ErrorCode.STALE_BROKER_EPOCH))
            return
        context.reply(
            AllocateProducerIdsResponse(
                producer_id_start=block.first, producer_id_len=block.end - block.first
            )
        )

    services.control_plane.controller.write(
        decide, done, lambda error: context.reply(_failure(error))
    )
    return None


def _failure(error: ErrorCode) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(error_code=error)

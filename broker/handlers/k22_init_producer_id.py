"""InitProducerId (22).

Behaviour: a new producer id from this broker's block, epoch 0; an idempotent producer that sends
its id and epoch (KIP-360) gets a new id too, as in Kafka. Transactional ids are refused: this
broker does not serve transactions yet and does not advertise their APIs.

Versions: 0-5 (6 is unstable in Kafka 4.4). 3 has the producer's present id and epoch.
"""

from __future__ import annotations

from broker.handlers.context import RequestContext
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def handle(
    request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse | None:
    """Assign an id."""
    if request.transactional_id is not None:
        return _failure(_transactional_error(request, context))
    if not context.is_authorized(
        Operation.IDEMPOTENT_WRITE, Resource.CLUSTER, CLUSTER_NAME, is_reported=False
    ) and not context.is_authorized_for_any(Operation.WRITE, Resource.TOPIC):
        return _failure(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        return _failure(ErrorCode.INVALID_REQUEST)
    context.services.data_plane.producer_ids.allocate(
        lambda producer_id: context.reply(
            InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
        ),
        lambda error: context.reply(_failure(error)),
    )
    return None


def _transactional_error(
    request: InitProducerIdRequest, context: RequestContext
) -> ErrorCode:
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    longest = context.services.metadata.config["transaction.max.timeout.ms"]
    if not 0 < request.transaction_timeout_ms <= longest:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.UNSUPPORTED_VERSION


def _failure(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_epoch=-1)

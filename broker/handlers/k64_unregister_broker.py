"""UnregisterBroker (64).

Behaviour: removes the registration of a broker that will not come back, and the broker from all
in-sync sets. A broker that still runs registers again by itself.

Versions: 0.
"""

from __future__ import annotations

from broker.controller.decisions.brokers import BrokerChangeResult, unregister
from broker.controller.decisions.partition_policy import PartitionPolicy
from broker.handlers.context import RequestContext
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)


def handle(
    request: UnregisterBrokerRequest, context: RequestContext
) -> UnregisterBrokerResponse | None:
    """Ask the controller."""
    if not context.is_authorized(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return UnregisterBrokerResponse(error_code=error, error_message=error.text)

    def done(reply: BrokerChangeResult) -> None:
        context.reply(
            UnregisterBrokerResponse(error_code=reply.error, error_message=reply.message)
        )

    rules = PartitionPolicy.of(context.services.metadata.config)
    context.services.control_plane.controller.write(
        lambda image: unregister(image, rules, request.broker_id),
        done,
        lambda error: context.reply_error(ApiKey.UNREGISTER_BROKER, request, error),
    )
    return None

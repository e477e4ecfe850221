"""UnregisterBroker (64).

Behaviour: forgets a broker that will not come back; what it was in sync for goes to others. A
broker that is still there registers again by itself.

Versions: 0.
"""

from __future__ import annotations

from broker.controller.decisions.brokers import Done, unregister
from broker.controller.decisions.rules import Rules
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
    if not context.may(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return UnregisterBrokerResponse(error_code=error, error_message=error.text)

    def done(reply: Done) -> None:
        context.reply(
            UnregisterBrokerResponse(error_code=reply.error, error_message=reply.message)
        )

    rules = Rules.of(context.services.config)
    context.services.controller.write(
        lambda image: unregister(image, rules, request.broker_id),
        done,
        lambda error: context.refuse(ApiKey.UNREGISTER_BROKER, request, error),
    )
    return None

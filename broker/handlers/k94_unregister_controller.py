"""UnregisterController (94).

Behaviour: removes the registration of a controller that will not come back, from 4.4-IV2 on; who
votes is the quorum's affair (RemoveRaftVoter). A controller that still runs registers again by
itself when it starts.

Versions: 0.
"""

from __future__ import annotations

from broker.controller.decisions.controllers import ControllerRemoval, unregister_controller
from broker.handlers.context import RequestContext
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.unregister_controller import (
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)


def handle(
    request: UnregisterControllerRequest, context: RequestContext
) -> UnregisterControllerResponse | None:
    """Ask the controller."""
    if not context.is_authorized(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return UnregisterControllerResponse(error_code=error, error_message=error.text)

    def done(reply: ControllerRemoval) -> None:
        context.reply(
            UnregisterControllerResponse(error_code=reply.error, error_message=reply.message)
        )

    context.services.control_plane.controller.write(
        lambda image: unregister_controller(image, request.controller_id),
        done,
        lambda error: context.reply_error(ApiKey.UNREGISTER_CONTROLLER, request, error),
    )
    return None

"""ExpireDelegationToken (40).

Behaviour: the token of an HMAC ends at another time, or at once: then nobody logs in with it any
more. Its owner and its renewers may do so. Of a client that has not proved who it is, or has by a
token: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.

Versions: 1-2.
"""

from __future__ import annotations

from broker.controller.decisions.delegation_tokens import TokenEnd, expire_token
from broker.handlers.context import RequestContext
from broker.handlers.token_requests import (
    NO_TIME,
    is_decided_elsewhere,
    may_ask_for_tokens,
)
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)

KEY = ApiKey.EXPIRE_DELEGATION_TOKEN


def handle(
    request: ExpireDelegationTokenRequest, context: RequestContext
) -> ExpireDelegationTokenResponse | None:
    """Ask the controller."""
    services, principal = context.services, context.session.principal
    if not may_ask_for_tokens(context):
        return ExpireDelegationTokenResponse(
            ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NO_TIME
        )
    if is_decided_elsewhere(context):
        services.forwarding.forward(KEY, request, context)
        return None
    if not services.tokens.is_enabled:
        return ExpireDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    of_hmac, now_ms = bytes(request.hmac), services.clock.now_ms()
    services.control_plane.controller.write(
        lambda image: expire_token(
            image, services.tokens, of_hmac, principal, request.expiry_time_period_ms, now_ms
        ),
        lambda end: context.reply(_response(end)),
        lambda error: context.reply_error(KEY, request, error),
    )
    return None


def _response(end: TokenEnd) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(end.error, end.ends_at_ms)

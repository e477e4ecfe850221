"""RenewDelegationToken (39).

Behaviour: the token of an HMAC ends at another time: `delegation.token.expiry.time.ms` from now on
at most, and never after its life. Its owner and its renewers may do so, before it has expired. Of a
client that has not proved who it is, or has by a token: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.

Versions: 1-2.
"""

from __future__ import annotations

from broker.controller.decisions.delegation_tokens import TokenEnd, renew_token
from broker.handlers.context import RequestContext
from broker.handlers.token_requests import (
    NO_TIME,
    is_decided_elsewhere,
    limits,
    may_ask_for_tokens,
)
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

KEY = ApiKey.RENEW_DELEGATION_TOKEN


def handle(
    request: RenewDelegationTokenRequest, context: RequestContext
) -> RenewDelegationTokenResponse | None:
    """Ask the controller."""
    services, principal = context.services, context.session.principal
    if not may_ask_for_tokens(context):
        return RenewDelegationTokenResponse(
            ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NO_TIME
        )
    if is_decided_elsewhere(context):
        services.forwarding.forward(KEY, request, context)
        return None
    if not services.tokens.is_enabled:
        return RenewDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    of_hmac, now_ms = bytes(request.hmac), services.clock.now_ms()
    services.control_plane.controller.write(
        lambda image: renew_token(
            image,
            services.tokens,
            of_hmac,
            principal,
            request.renew_period_ms,
            limits(context),
            now_ms,
        ),
        lambda end: context.reply(_response(end)),
        lambda error: context.reply_error(KEY, request, error),
    )
    return None


def _response(end: TokenEnd) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(end.error, end.ends_at_ms)

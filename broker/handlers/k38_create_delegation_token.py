"""CreateDelegationToken (38).

Behaviour: makes a token with which others log in as its owner, until it ends. The owner is the
client, or whom it names if it may make tokens for that one. Of a client that has not proved who it
is, or has by a token: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED. Owners and renewers are users: nobody
else logs in.

Versions: 1-3. 3 has an owner, and names who has asked.
"""

from __future__ import annotations

from broker.controller.decisions.delegation_tokens import WantedToken, create_token
from broker.handlers.context import RequestContext
from broker.handlers.token_requests import (
    NO_TIME,
    is_decided_elsewhere,
    limits,
    may_ask_for_tokens,
)
from broker.log.log_dir_files import new_id
from broker.security.authorizer import Operation, Resource
from broker.security.delegation_tokens import USER
from broker.security.principal import Principal
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from bus.protocol.generated.metadata_records import DelegationTokenRecord

KEY = ApiKey.CREATE_DELEGATION_TOKEN


def handle(
    request: CreateDelegationTokenRequest, context: RequestContext
) -> CreateDelegationTokenResponse | None:
    """Ask the controller."""
    services, requester = context.services, context.session.principal
    owner = requester
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or "", request.owner_principal_name)
    error = _refusal(request, owner, context)
    if error:
        return _response(owner, requester, error, NO_TIME)
    if is_decided_elsewhere(context):
        services.forwarding.forward(KEY, request, context)
        return None
    if not services.tokens.is_enabled:
        return _response(owner, requester, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    asked = WantedToken(
        owner,
        requester,
        tuple(Principal(one.principal_type, one.principal_name) for one in request.renewers),
        request.max_lifetime_ms,
    )
    token_id, now_ms = new_id(services.clock), services.clock.now_ms()
    services.control_plane.controller.write(
        lambda _: create_token(asked, token_id, limits(context), now_ms),
        lambda token: context.reply(
            _made(owner, requester, token, services.tokens.hmac_of(token_id))
        ),
        lambda error: context.reply_error(KEY, request, error),
    )
    return None


def _refusal(
    request: CreateDelegationTokenRequest, owner: Principal, context: RequestContext
) -> ErrorCode:
    if not may_ask_for_tokens(context):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    if owner != context.session.principal and not context.is_authorized(
        Operation.CREATE_TOKENS, Resource.USER, str(owner)
    ):
        return ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    kinds = {owner.kind, *(one.principal_type for one in request.renewers)}
    if kinds != {USER}:
        return ErrorCode.INVALID_PRINCIPAL_TYPE
    return ErrorCode.NONE


def _response(
    owner: Principal, requester: Principal, error: ErrorCode, time_ms: int = 0
) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        error,
        owner.kind,
        owner.name,
        requester.kind,
        requester.name,
        time_ms,
        time_ms,
        time_ms,
    )


def _made(
    owner: Principal, requester: Principal, token: DelegationTokenRecord, of_hmac: bytes
) -> CreateDelegationTokenResponse:
    response = _response(owner, requester, ErrorCode.NONE)
    response.issue_timestamp_ms = token.issue_timestamp
    response.expiry_timestamp_ms = token.expiration_timestamp
    response.max_timestamp_ms = token.max_timestamp
    response.token_id = token.token_id
    response.hmac = of_hmac
    return response

"""DescribeDelegationToken (41).

Behaviour: the tokens that the client owns, has asked for or may renew, and those of others that the
ACLs let it see (DESCRIBE of the token, DESCRIBE_TOKENS of its owner); of these owners or of all.
What it may not see is not mentioned. Of a client that has not proved who it is, or has by a token:
DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.

Versions: 1-3. 3 names who has asked for a token.
"""

from __future__ import annotations

from broker.handlers.context import RequestContext
from broker.handlers.token_requests import may_ask_for_tokens
from broker.security.authorizer import Operation, Resource
from broker.security.delegation_tokens import is_visible
from broker.security.principal import Principal
from bus.errors import ErrorCode
from bus.protocol.generated.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from bus.protocol.generated.metadata_records import DelegationTokenRecord


def handle(
    request: DescribeDelegationTokenRequest, context: RequestContext
) -> DescribeDelegationTokenResponse:
    """List tokens of the image."""
    if not may_ask_for_tokens(context):
        return DescribeDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    tokens, image = context.services.tokens, context.services.metadata.image
    if not tokens.is_enabled:
        return DescribeDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None
    if request.owners is not None:
        owners = [Principal(one.principal_type, one.principal_name) for one in request.owners]

    def may_describe(token: DelegationTokenRecord) -> bool:
        return context.is_authorized(
            Operation.DESCRIBE, Resource.DELEGATION_TOKEN, token.token_id, is_reported=False
        ) or context.is_authorized(
            Operation.DESCRIBE_TOKENS, Resource.USER, token.owner, is_reported=False
        )

    asker = context.session.principal
    return DescribeDelegationTokenResponse(
        tokens=[
            _described(one, tokens.hmac_of(one.token_id))
            for one in image.delegation_tokens.values()
            if is_visible(one, asker, owners, may_describe)
        ]
    )


def _described(token: DelegationTokenRecord, of_hmac: bytes) -> DescribedDelegationToken:
    owner, requester = Principal.parse(token.owner), Principal.parse(token.requester)
    renewers = [Principal.parse(one) for one in token.renewers]
    return DescribedDelegationToken(
        owner.kind,
        owner.name,
        requester.kind,
        requester.name,
        token.issue_timestamp,
        token.expiration_timestamp,
        token.max_timestamp,
        token.token_id,
        of_hmac,
        [DescribedDelegationTokenRenewer(one.kind, one.name) for one in renewers],
    )

"""Delegation tokens (KIP-48): made, listed, renewed, ended.

In: a `SyncClient` that has logged in by a password or a certificate. Out: tokens, with their HMACs.
Raises BusError with the cluster's own code. Never: an HMAC in a text about a token.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from bus.client.admin.queries import raise_for_error
from bus.client.wire.sync_client import SyncClient
from bus.protocol.apis import ApiKey
from bus.protocol.generated import (
    create_delegation_token,
    describe_delegation_token,
    expire_delegation_token,
    renew_delegation_token,
)

USER = "User"
AT_ONCE = -1
AS_LONG_AS_POSSIBLE = -1


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """One token; principals as `User:alice`, times in milliseconds since 1970."""

    token_id: str
    owner: str
    renewers: tuple[str, ...]
    ends_at_ms: int
    """Unless it is renewed."""
    life_ends_at_ms: int
    hmac: bytes = field(repr=False)


def create_token(
    client: SyncClient, owner: str = "", renewers: Iterable[str] = (), lifetime_ms: int = -1
) -> DelegationToken:
    """`owner` and `renewers` are names of users; no owner: who asks. `lifetime_ms`: how long it may
    be renewed, AS_LONG_AS_POSSIBLE: what the cluster allows."""
    named = tuple(renewers)
    request = create_delegation_token.CreateDelegationTokenRequest(
        USER if owner else None,
        owner or None,
        [create_delegation_token.CreatableRenewers(USER, one) for one in named],
        lifetime_ms,
    )
    made = client.request(ApiKey.CREATE_DELEGATION_TOKEN, request)
    raise_for_error(made.error_code, None)
    return DelegationToken(
        made.token_id,
        f"{made.principal_type}:{made.principal_name}",
        tuple(f"{USER}:{one}" for one in named),
        made.expiry_timestamp_ms,
        made.max_timestamp_ms,
        bytes(made.hmac),
    )


def delegation_tokens(client: SyncClient, owner: str = "") -> list[DelegationToken]:
    """Those that the client may see, of all or of the user `owner`; the oldest first. A cluster
    that is asked for an owner also names tokens that the user has asked for or may renew."""
    owners = [describe_delegation_token.DescribeDelegationTokenOwner(USER, owner)]
    request = describe_delegation_token.DescribeDelegationTokenRequest(owners if owner else None)
    answer = client.request(ApiKey.DESCRIBE_DELEGATION_TOKEN, request)
    raise_for_error(answer.error_code, None)
    return [
        DelegationToken(
            one.token_id,
            f"{one.principal_type}:{one.principal_name}",
            tuple(f"{each.principal_type}:{each.principal_name}" for each in one.renewers),
            one.expiry_timestamp,
            one.max_timestamp,
            bytes(one.hmac),
        )
        for one in sorted(answer.tokens, key=lambda one: (one.issue_timestamp, one.token_id))
        if not owner or (one.principal_type, one.principal_name) == (USER, owner)
    ]


def renew_token(
    client: SyncClient, token: DelegationToken, period_ms: int = AS_LONG_AS_POSSIBLE
) -> int:
    """When it ends now."""
    request = renew_delegation_token.RenewDelegationTokenRequest(token.hmac, period_ms)
    answer = client.request(ApiKey.RENEW_DELEGATION_TOKEN, request)
    raise_for_error(answer.error_code, None)
    return answer.expiry_timestamp_ms


def expire_token(client: SyncClient, token: DelegationToken, period_ms: int = AT_ONCE) -> int:
    """When it ends now."""
    request = expire_delegation_token.ExpireDelegationTokenRequest(token.hmac, period_ms)
    answer = client.request(ApiKey.EXPIRE_DELEGATION_TOKEN, request)
    raise_for_error(answer.error_code, None)
    return answer.expiry_timestamp_ms

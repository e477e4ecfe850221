"""Decisions about delegation tokens (38–40), and about those that have expired.

In: the image, what is asked, the time. Out: records, and what the client is told. Never: whether
the client may ask at all, which its connection and the ACLs decide. Kafka:
DelegationTokenControlManager.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from broker.config.key import MAX_LONG
from broker.controller.decisions.decision import Decision
from broker.metadata.image import MetadataImage
from broker.security.delegation_tokens import DelegationTokens, is_expired, may_renew
from broker.security.principal import Principal
from bus.errors import ErrorCode
from bus.protocol.generated.metadata_records import (
    DelegationTokenRecord,
    RemoveDelegationTokenRecord,
)

MOST_EXPIRED = 1_000
"""Tokens that one decision removes; more are left to the next."""

NO_TIME = 0
"""In place of the end of a token in an answer that refuses."""


@dataclass(frozen=True, slots=True)
class TokenLimits:
    """In milliseconds: of a token, and until it is to be renewed."""

    most_ms: int
    renewal_ms: int


@dataclass(frozen=True, slots=True)
class WantedToken:
    """A token that is to be made. `most_ms`: its lifetime, 0 or less: as long as possible."""

    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    most_ms: int


@dataclass(frozen=True, slots=True)
class TokenEnd:
    """When a token ends, or why nothing has changed."""

    error: ErrorCode
    ends_at_ms: int = NO_TIME


def create_token(
    asked: WantedToken, token_id: str, limits: TokenLimits, now_ms: int
) -> Decision[DelegationTokenRecord]:
    """`token_id` is a new one."""
    most_ms = min(limits.most_ms, asked.most_ms) if asked.most_ms > 0 else limits.most_ms
    max_timestamp = _later(now_ms, most_ms)
    token = DelegationTokenRecord(
        owner=str(asked.owner),
        requester=str(asked.requester),
        renewers=[str(one) for one in asked.renewers],
        issue_timestamp=now_ms,
        max_timestamp=max_timestamp,
        expiration_timestamp=min(max_timestamp, _later(now_ms, limits.renewal_ms)),
        token_id=token_id,
    )
    return Decision((token,), token)


def renew_token(
    image: MetadataImage,
    tokens: DelegationTokens,
    of_hmac: bytes,
    principal: Principal,
    period_ms: int,
    limits: TokenLimits,
    now_ms: int,
) -> Decision[TokenEnd]:
    """For `period_ms` from now on, or as long as possible if that is 0 or less."""
    token = tokens.token_of(image.delegation_tokens, of_hmac)
    if token is None:
        return _refused(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    if is_expired(token, now_ms):
        return _refused(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    if not may_renew(token, principal):
        return _refused(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
    longest_ms = limits.renewal_ms
    return _ended(token, now_ms, min(longest_ms, period_ms) if period_ms > 0 else longest_ms)


def expire_token(
    image: MetadataImage,
    tokens: DelegationTokens,
    of_hmac: bytes,
    principal: Principal,
    period_ms: int,
    now_ms: int,
) -> Decision[TokenEnd]:
    """`period_ms` from now on; at once, if that is less than 0: then also one that has expired."""
    token = tokens.token_of(image.delegation_tokens, of_hmac)
    if token is None:
        return _refused(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    if not may_renew(token, principal):
        return _refused(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
    if period_ms < 0:
        gone = RemoveDelegationTokenRecord(token_id=token.token_id)
        return Decision((gone,), TokenEnd(ErrorCode.NONE, now_ms))
    if is_expired(token, now_ms):
        return _refused(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    return _ended(token, now_ms, period_ms)


def remove_expired(
    image: MetadataImage, now_ms: int
) -> Decision[tuple[DelegationTokenRecord, ...]]:
    """The reply: those that are removed, MOST_EXPIRED of them if there may be more."""
    expired = [one for one in image.delegation_tokens.values() if is_expired(one, now_ms)]
    found = tuple(expired[:MOST_EXPIRED])
    return Decision(
        tuple(RemoveDelegationTokenRecord(token_id=one.token_id) for one in found), found
    )


def _refused(error: ErrorCode) -> Decision[TokenEnd]:
    return Decision((), TokenEnd(error))


def _ended(token: DelegationTokenRecord, now_ms: int, period_ms: int) -> Decision[TokenEnd]:
    ends_at_ms = min(token.max_timestamp, _later(now_ms, period_ms))
    changed = replace(token, expiration_timestamp=ends_at_ms)
    return Decision((changed,), TokenEnd(ErrorCode.NONE, ends_at_ms))


def _later(now_ms: int, period_ms: int) -> int:
    """Of two times that fit a record, one that does."""
    return min(now_ms + period_ms, MAX_LONG)

"""Delegation tokens: made, renewed, ended by whom may, and removed when their time is over."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.controller.decisions.delegation_tokens import (
    MOST_EXPIRED,
    TokenEnd,
    TokenLimits,
    WantedToken,
    create_token,
    expire_token,
    remove_expired,
    renew_token,
)
from broker.metadata.delta import MetadataDelta
from broker.metadata.image import MetadataImage
from broker.metadata.image_writer import image_records
from broker.security.delegation_tokens import DelegationTokens
from broker.security.principal import Principal
from bus.errors import ErrorCode
from bus.protocol.generated.metadata_records import DelegationTokenRecord
from tests.broker.controller.decisions.world import ControlWorld

NOW_MS = 1_000_000
LIFETIMES = TokenLimits(most_ms=1_000, renewal_ms=100)
MAX_LONG = (1 << 63) - 1
OWNER, REQUESTER, RENEWER, STRANGER = (Principal("User", one) for one in "abcd")
TOKENS = DelegationTokens("key", dict, lambda: NOW_MS)
HMAC = TOKENS.hmac_of("t")


def asked(most_ms: int = -1) -> WantedToken:
    return WantedToken(OWNER, REQUESTER, (RENEWER,), most_ms)


def world_with(most_ms: int = -1) -> ControlWorld:
    """One token, `t`."""
    world = ControlWorld()
    world.decide(create_token(asked(most_ms), "t", LIFETIMES, NOW_MS))
    return world


def renewed(world: ControlWorld, who: Principal, period_ms: int, now_ms: int, of_hmac: bytes = HMAC) -> TokenEnd:
    return world.decide(
        renew_token(world.image, TOKENS, of_hmac, who, period_ms, LIFETIMES, now_ms)
    )


def expired(world: ControlWorld, who: Principal, period_ms: int, now_ms: int, of_hmac: bytes = HMAC) -> TokenEnd:
    return world.decide(expire_token(world.image, TOKENS, of_hmac, who, period_ms, now_ms))


@given(st.integers(-(1 << 63), MAX_LONG), st.integers(1, MAX_LONG), st.integers(1, MAX_LONG))
def test_a_token_never_lasts_longer_than_is_asked_for_and_than_the_cluster_allows(
    asked_ms: int, most_ms: int, renewal_ms: int
) -> None:
    """And its times fit the records, however large they are."""
    lifetimes = TokenLimits(most_ms, renewal_ms)
    token = create_token(asked(asked_ms), "t", lifetimes, NOW_MS).reply
    assert token.issue_timestamp == NOW_MS
    assert token.max_timestamp <= min(NOW_MS + most_ms, MAX_LONG)
    assert asked_ms <= 0 or token.max_timestamp <= NOW_MS + asked_ms
    assert NOW_MS < token.expiration_timestamp <= token.max_timestamp
    assert token.expiration_timestamp <= NOW_MS + renewal_ms


def test_a_token_is_renewed_by_those_who_may_and_never_beyond_its_life() -> None:
    world = world_with()
    for who in (OWNER, RENEWER):
        assert renewed(world, who, -1, NOW_MS + 50) == TokenEnd(ErrorCode.NONE, NOW_MS + 150)
        assert renewed(world, who, 20, NOW_MS + 50) == TokenEnd(ErrorCode.NONE, NOW_MS + 70)
        assert renewed(world, who, 5_000, NOW_MS + 50) == TokenEnd(ErrorCode.NONE, NOW_MS + 150)
    for who in (REQUESTER, STRANGER):
        assert renewed(world, who, -1, NOW_MS).error is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    short = world_with(120)
    assert renewed(short, OWNER, -1, NOW_MS + 90).ends_at_ms == NOW_MS + 120
    assert renewed(short, OWNER, -1, NOW_MS + 121).error is ErrorCode.DELEGATION_TOKEN_EXPIRED
    unknown = renewed(world, OWNER, -1, NOW_MS, b"x")
    assert unknown.error is ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_a_token_is_ended_at_once_or_later_by_those_who_may() -> None:
    world = world_with()
    for who in (REQUESTER, STRANGER):
        for period_ms in (-1, 5):
            refused = expired(world, who, period_ms, NOW_MS)
            assert refused.error is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert expired(world, RENEWER, 500, NOW_MS) == TokenEnd(ErrorCode.NONE, NOW_MS + 500)
    assert expired(world, OWNER, MAX_LONG, NOW_MS).ends_at_ms == NOW_MS + LIFETIMES.most_ms
    late = NOW_MS + LIFETIMES.most_ms + 1
    assert expired(world, OWNER, 5, late).error is ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert expired(world, OWNER, -1, late) == TokenEnd(ErrorCode.NONE, late)
    assert not world.image.delegation_tokens
    assert expired(world, OWNER, -1, late).error is ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_what_has_expired_is_removed_so_many_at_a_time() -> None:
    world = ControlWorld()
    for number in range(MOST_EXPIRED + 5):
        world.decide(create_token(asked(), f"t{number}", LIFETIMES, NOW_MS))
    world.decide(create_token(asked(), "young", LIFETIMES, NOW_MS + 50))
    late = NOW_MS + LIFETIMES.renewal_ms + 1
    assert remove_expired(world.image, late - 1).records == ()
    assert len(world.decide(remove_expired(world.image, late))) == MOST_EXPIRED
    assert len(world.decide(remove_expired(world.image, late))) == 5
    assert set(world.image.delegation_tokens) == {"young"}


TIMES = st.integers(0, MAX_LONG)
PRINCIPALS = st.text(max_size=8).map(lambda name: f"User:{name}")


@given(st.lists(st.builds(
    DelegationTokenRecord, PRINCIPALS, PRINCIPALS, st.lists(PRINCIPALS, max_size=3), TIMES, TIMES,
    TIMES, st.sampled_from(["a", "b", "c"]),
)))  # fmt: skip
def test_a_snapshot_has_all_tokens_that_there_are(records: list[DelegationTokenRecord]) -> None:
    delta = MetadataDelta(MetadataImage())
    for record in records:
        delta.replay(record)
    image = delta.apply(1, 1).image
    again = MetadataDelta(MetadataImage())
    for record in image_records(image):
        again.replay(record)
    assert dict(again.apply(1, 1).image.delegation_tokens) == dict(image.delegation_tokens)

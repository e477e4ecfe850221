"""Delegation tokens in the nodes of Kafka 3.9: content, the controller's writes, those of others."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.controller.decisions.delegation_tokens import (
    TokenLimits,
    WantedToken,
    create_token,
    expire_token,
    renew_token,
)
from broker.controller.zk import tokens, znodes
from broker.controller.zk.acl_and_quota_reader import read_acls_and_quotas
from broker.controller.zk.port import ZooKeeperError
from broker.controller.zk.state_reader import ZooKeeperMetadata
from broker.security.delegation_tokens import DelegationTokens
from broker.security.principal import Principal
from bus.protocol.generated.metadata_records import DelegationTokenRecord
from tests.broker.controller.zk.simulated import SimulatedBroker, run_story, settled

TIMES = st.integers(0, (1 << 63) - 1)
PRINCIPALS = st.text(max_size=12).map(lambda name: f"User:{name}")
RECORDS = st.builds(
    DelegationTokenRecord, PRINCIPALS, PRINCIPALS, st.lists(PRINCIPALS, max_size=3), TIMES, TIMES,
    TIMES, st.just("an-id"),
)  # fmt: skip
OWNER = Principal("User", "CN=a b/é")
LIFETIMES = TokenLimits(1_000, 100)
SECRETS = DelegationTokens("key", dict, lambda: 0)
OLD = (
    b'{"version":1,"owner":"User%3Aann","renewers":["User%3Abob"],"issueTimestamp":1,'
    b'"maxTimestamp":3,"expiryTimestamp":2,"tokenId":"an-id"}'
)
"""As Kafka before 3.3 wrote it, which did not know who had asked for a token."""


@given(RECORDS)
def test_a_node_is_read_as_it_is_written(record: DelegationTokenRecord) -> None:
    data = tokens.encode_token(record)
    assert tokens.decode_token("an-id", data) == record
    assert list(json.loads(data)) == [
        "version", "owner", "tokenRequester", "renewers", "issueTimestamp", "maxTimestamp",
        "expiryTimestamp", "tokenId",
    ]  # fmt: skip


def test_a_node_of_an_old_kafka_is_read() -> None:
    assert tokens.decode_token("an-id", OLD) == DelegationTokenRecord(
        "User:ann", "User:ann", ["User:bob"], 1, 3, 2, "an-id"
    )


@given(st.binary() | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.sampled_from(sorted(json.loads(OLD))), parts),
).map(lambda value: json.dumps(value).encode()))  # fmt: skip
def test_garbage_is_malformed_and_nothing_else(data: bytes) -> None:
    with pytest.raises(znodes.ZnodeError, match=r"/delegation_token/tokens/an-id"):
        tokens.decode_token("an-id", data)


@given(st.sampled_from(sorted(json.loads(OLD))), st.none() | st.integers() | st.text() | st.lists(st.text()))
def test_a_node_with_one_wrong_field_is_read_or_malformed(field: str, value: object) -> None:
    try:
        found = tokens.decode_token("an-id", json.dumps({**json.loads(OLD), field: value}).encode())
    except znodes.ZnodeError:
        return
    assert tokens.decode_token("an-id", tokens.encode_token(found)) == found


@given(st.binary(max_size=40))
def test_a_notification_names_a_node_and_no_path(data: bytes) -> None:
    found = tokens.id_of_notification(data)
    assert found is None or (found.encode() == data and not {"/", ".", "", "\0"} & {*found, found})


def test_a_tokens_notification_is_its_id() -> None:
    for token_id in ("OWfx88AiRFG-zdKDwRw8IA", "_a-b"):
        assert tokens.id_of_notification(token_id.encode()) == token_id


async def create(party: SimulatedBroker, token_id: str) -> DelegationTokenRecord:
    asked = WantedToken(OWNER, OWNER, (Principal("User", "r"),), -1)
    token: DelegationTokenRecord = await party.write(
        lambda _: create_token(asked, token_id, LIFETIMES, 0)
    )
    await settled()
    return token


def test_tokens_stand_in_their_nodes_and_every_broker_learns_of_each_change() -> None:
    """Made, renewed, ended."""

    async def story(one: SimulatedBroker, two: SimulatedBroker) -> None:
        path = tokens.token_path("t-1")
        await create(one, "t-1")
        await create(one, "t-2")
        data, _ = await one.session.get(path)
        assert json.loads(data)["owner"] == "User%3ACN%3Da%20b%2F%C3%A9"
        await two.read_change_notifications()
        assert two.image.delegation_tokens == one.controller.image.delegation_tokens
        assert set(two.image.delegation_tokens) == {"t-1", "t-2"}
        of_hmac = SECRETS.hmac_of("t-1")
        await one.write(
            lambda image: renew_token(image, SECRETS, of_hmac, OWNER, 7, LIFETIMES, 50)
        )
        await settled()
        assert json.loads((await one.session.get(path))[0])["expiryTimestamp"] == 57
        await two.read_change_notifications()
        assert two.image.delegation_tokens["t-1"].expiration_timestamp == 57
        await one.write(lambda image: expire_token(image, SECRETS, of_hmac, OWNER, -1, 60))
        await settled()
        with pytest.raises(ZooKeeperError, match="no node"):
            await one.session.get(path)
        await two.read_change_notifications()
        assert set(two.image.delegation_tokens) == {"t-2"}

    run_story(story)


def test_what_brokers_of_kafka_write_is_taken_up_at_once_and_at_a_start() -> None:
    """They write tokens by themselves; a malformed one is left alone, and so is all the rest."""

    async def story(one: SimulatedBroker, two: SimulatedBroker) -> None:
        await two.session.create(tokens.token_path("an-id"), OLD)
        await two.session.create(tokens.token_path("bad"), b"{}")
        for note in (b"an-id", b"bad", b"../config", b"\xff", b"gone"):
            await two.session.create(tokens.CHANGE_PREFIX, note, sequence=True)
        await settled()
        for party in (one, two):
            await party.read_change_notifications()
        await settled()
        for image in (two.image, one.controller.image):
            assert set(image.delegation_tokens) == {"an-id"}
        await create(one, "t")
        state = ZooKeeperMetadata("cluster")
        await read_acls_and_quotas(two.session, state)  # as a migration to KRaft does
        assert {getattr(each, "token_id", "") for each in state.records} == {"an-id", "t"}
        assert [fault for fault in state.faults if "/tokens/bad" in fault] == state.faults != []
        await two.session.delete(tokens.token_path("an-id"))
        await settled()
        await two.member.read_configs()
        assert set(two.image.delegation_tokens) == {"t"}

    run_story(story)

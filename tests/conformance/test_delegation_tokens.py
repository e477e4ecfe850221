"""Delegation tokens (KIP-48) beside Apache Kafka 4.4: the same requests of the same users get the same
answers, and Kafka's own clients and tool go on with our tokens as with Kafka's.

Both servers have one listener, SASL_PLAINTEXT, and an authorizer. Users log in by PLAIN, tokens by
SCRAM. The administrator may do everything, the others what the ACLs of a story say.
"""

from __future__ import annotations

import base64
import hmac
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from broker.config.keys_controller import STANDARD_AUTHORIZER
from bus.client.admin.queries import listed_acls
from bus.errors import ErrorCode
from bus.protocol.acls import AclBinding, Operation, Pattern, Permission, Resource
from bus.protocol.apis import ApiKey
from bus.protocol.generated.create_acls import AclCreation, CreateAclsRequest
from bus.protocol.generated.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from bus.protocol.generated.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from bus.protocol.generated.describe_acls import DescribeAclsRequest
from bus.protocol.generated.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from bus.protocol.generated.expire_delegation_token import ExpireDelegationTokenRequest
from bus.protocol.generated.renew_delegation_token import RenewDelegationTokenRequest
from bus.protocol.generated.sasl_authenticate import SaslAuthenticateRequest
from bus.protocol.generated.sasl_handshake import SaslHandshakeRequest
from bus.security.sasl_server import PLAIN, SCRAM_BY_TITLE, ScramMechanism
from deploy.errors import Unavailable
from deploy.servers.databus import start_broker
from deploy.servers.kafka import run_tool, start_kafka
from tests.broker.handlers.test_every_version import FrameSocket
from tests.broker.server.cluster_with_acls import until
from tests.rotation import drawn
from tests.token_clients import create, log_in, log_in_by

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

ADMIN, ALICE, BOB, CAROL = "city", "alice", "bob", "carol"
SECRET_KEY = "the secret key of tokens"
MODULE = "org.apache.kafka.common.security"
USERS = " ".join(f'user_{one}="of-{one}"' for one in (ADMIN, ALICE, BOB, CAROL))
RENEWAL_MS, MOST_MS = 3_600_000, 7_200_000
COARSE_MS = 300_000
"""A renewed token lasts so many of these from its making on, however slow the machine is."""
SETTINGS = {
    "sasl.enabled.mechanisms": ",".join((PLAIN, *SCRAM_BY_TITLE)),
    "sasl.mechanism.inter.broker.protocol": PLAIN,
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{MODULE}.plain.PlainLoginModule required username="{ADMIN}" password="of-{ADMIN}" {USERS};'
    ),
    **{
        f"listener.name.sasl_plaintext.{one.lower()}.sasl.jaas.config": (
            f"{MODULE}.scram.ScramLoginModule required;"
        )
        for one in SCRAM_BY_TITLE
    },
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": f"User:{ADMIN};User:ANONYMOUS",
    "delegation.token.expiry.time.ms": str(RENEWAL_MS),
    "delegation.token.max.lifetime.ms": str(MOST_MS),
    "delegation.token.secret.key": SECRET_KEY,
}
"""ANONYMOUS are the nodes at Kafka's controller."""


class TokenServer(NamedTuple):
    """One that serves at this address."""

    name: str
    address: str


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenServer]:
    running = start_broker(tmp_path_factory.mktemp("ours"), {
        **SETTINGS, "listeners": "SASL_PLAINTEXT://127.0.0.1:0"})  # fmt: skip
    try:
        yield TokenServer("ours", running.bootstrap)
    finally:
        running.stop()


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenServer]:
    try:
        server = start_kafka(
            tmp_path_factory.mktemp("kafka"), settings=SETTINGS, heap="384m", protocol="SASL_PLAINTEXT"
        )
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka 4.4: {missing}")
    with server:
        yield TokenServer("kafka", server.address)


class Teller:
    """What one server answers, told so that the answers of two can be compared: ids and HMACs by
    their number, times by what lies between them."""

    def __init__(self, server: TokenServer) -> None:
        self.server = server
        self.told: list[str] = []
        self._wires: dict[str, FrameSocket] = {}
        self._names: dict[object, str] = {}
        self.tokens: list[CreateDelegationTokenResponse] = []

    def wire(self, user: str) -> FrameSocket:
        """A connection of this user, who has a password."""
        if user not in self._wires:
            wire = self._wires[user] = FrameSocket(self.server.address)
            assert not wire.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(PLAIN)).error_code
            token = f"\0{user}\0of-{user}".encode()
            answer = wire.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(token))
            assert not answer.error_code, answer
        return self._wires[user]

    def create(self, user: str, *renewers: str, **more: Any) -> CreateDelegationTokenResponse:
        return self.made(create(self.wire(user), *renewers, **more))

    def made(self, answer: Any) -> CreateDelegationTokenResponse:
        """A token that all nodes know by now, or why there is none."""
        if not answer.error_code:
            expected = hmac.digest(SECRET_KEY.encode(), answer.token_id.encode(), "sha512")
            assert answer.hmac == expected
            assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", answer.token_id), answer.token_id
            self.tokens.append(answer)
            until("brokers know the token", lambda: self._is_listed(answer.token_id))
            until("the controller knows it", lambda: self._probed(answer) in (
                ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, ErrorCode.DELEGATION_TOKEN_EXPIRED))  # fmt: skip
        number = len(self.tokens)
        lasts = answer.expiry_timestamp_ms - answer.issue_timestamp_ms
        most = answer.max_timestamp_ms - answer.issue_timestamp_ms
        told = (answer.principal_type, answer.principal_name, answer.token_requester_principal_type,
                answer.token_requester_principal_name, lasts, most, bool(answer.token_id),
                len(answer.hmac), answer.issue_timestamp_ms > 0)  # fmt: skip
        self.told.append(f"{number}. create {ErrorCode.of(answer.error_code).name} {told}")
        return answer  # type: ignore[no-any-return]

    def listed(self, user: str, owners: Sequence[str] | None) -> list[Any]:
        named = None
        if owners is not None:
            named = [DescribeDelegationTokenOwner("User", one) for one in owners]
        request = DescribeDelegationTokenRequest(named)
        answer = self.wire(user).ask(ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, request)
        assert not answer.error_code, answer
        return list(answer.tokens)

    def describe(self, user: str, *owners: str, every: bool = False) -> None:
        """Of the tokens that were made here."""
        known = {one.token_id: number for number, one in enumerate(self.tokens)}
        found = [
            (known[one.token_id], one.principal_name, one.token_requester_principal_name,
             (one.expiry_timestamp - one.issue_timestamp) // COARSE_MS,
             one.max_timestamp - one.issue_timestamp,
             one.hmac == self.tokens[known[one.token_id]].hmac,
             [(each.principal_type, each.principal_name) for each in one.renewers])
            for one in self.listed(user, None if every else owners) if one.token_id in known
        ]  # fmt: skip
        self.told.append(f"{user} sees {sorted(found)}")

    def renew(self, user: str, of_hmac: bytes, period_ms: int = -1) -> Any:
        request = RenewDelegationTokenRequest(of_hmac, period_ms)
        answer = self.wire(user).ask(ApiKey.RENEW_DELEGATION_TOKEN, 2, request)
        return self._ended("renew", of_hmac, answer)

    def expire(self, user: str, of_hmac: bytes, period_ms: int = -1) -> Any:
        request = ExpireDelegationTokenRequest(of_hmac, period_ms)
        answer = self.wire(user).ask(ApiKey.EXPIRE_DELEGATION_TOKEN, 2, request)
        return self._ended("expire", of_hmac, answer, is_gone=period_ms < 0)

    def _ended(self, what: str, of_hmac: bytes, answer: Any, *, is_gone: bool = False) -> Any:
        """Times of an answer only as far as they have one: they are compared by `describe`. All
        nodes know of the change when this returns."""
        at = answer.expiry_timestamp_ms
        if not answer.error_code:
            [token] = [one for one in self.tokens if one.hmac == of_hmac]
            if is_gone:
                until("brokers forget the token", lambda: not self._is_listed(token.token_id))
                until("the controller forgets it", lambda: self._probed(token)
                      == ErrorCode.DELEGATION_TOKEN_NOT_FOUND)  # fmt: skip
            else:
                until("brokers know its end", lambda: any(
                    one.token_id == token.token_id and one.expiry_timestamp == at
                    for one in self.listed(ADMIN, None)))  # fmt: skip
        self.told.append(f"{what} {ErrorCode.of(answer.error_code).name} {at if at <= 0 else 'at'}")
        return answer

    def _is_listed(self, token_id: str) -> bool:
        return any(one.token_id == token_id for one in self.listed(ADMIN, None))

    def _probed(self, token: CreateDelegationTokenResponse) -> int:
        """What the controller says to one who may not renew it."""
        request = RenewDelegationTokenRequest(token.hmac, 1)
        return int(self.wire(ADMIN).ask(ApiKey.RENEW_DELEGATION_TOKEN, 2, request).error_code)

    def log_in(self, token: CreateDelegationTokenResponse, mechanism: ScramMechanism) -> FrameSocket:
        """A connection by token; nothing of it is told but the error."""
        wire = self._wires[f"token {len(self._wires)}"] = FrameSocket(self.server.address)
        answer = log_in_by(wire, token, mechanism)
        lasts_ms = token.expiry_timestamp_ms - token.issue_timestamp_ms
        is_bounded = 0 < answer.session_lifetime_ms <= lasts_ms
        self.told.append(f"log in {answer.error_code} {answer.error_message} {is_bounded}")
        return wire

    def set_acls(self, acls: Sequence[AclBinding]) -> None:
        """These and no others are in force."""
        everything = (1, None, 1, None, None, 1, 1)
        admin = self.wire(ADMIN)
        gone = admin.ask(ApiKey.DELETE_ACLS, 3, DeleteAclsRequest([DeleteAclsFilter(*everything)]))
        assert not gone.filter_results[0].error_code
        made = admin.ask(ApiKey.CREATE_ACLS, 3, CreateAclsRequest([AclCreation(*one) for one in acls]))
        assert not any(one.error_code for one in made.results), made
        until("the ACLs are in force", lambda: sorted(listed_acls(
            admin.ask(ApiKey.DESCRIBE_ACLS, 3, DescribeAclsRequest(*everything)))) == sorted(acls))  # fmt: skip

    def close(self) -> None:
        for wire in self._wires.values():
            wire.close()


def allowed(who: str, operation: Operation, kind: Resource, name: str = "*",
            permission: Permission = Permission.ALLOW) -> AclBinding:  # fmt: skip
    return AclBinding(kind, name, Pattern.LITERAL, f"User:{who}", "*", operation, permission)


Story = Callable[[Teller], None]


def _own_token(teller: Teller) -> None:
    """Everybody has tokens of its own; its life is bounded by what is asked for and what there is."""
    for lifetime_ms in (-1, 0, 1, 60_000, RENEWAL_MS + 1, MOST_MS + 1, (1 << 63) - 1):
        token = teller.create(ALICE, lifetime_ms=lifetime_ms)
        if lifetime_ms != 1:
            teller.describe(ALICE, ALICE)
        teller.expire(ALICE, token.hmac)


def _renewers(teller: Teller) -> None:
    token = teller.create(ALICE, BOB, BOB, "")
    for user in (ALICE, BOB, CAROL, ADMIN):
        teller.renew(user, token.hmac, 60_000)
        teller.describe(user, every=True)
    for period_ms in (-1, 0, 1_000_000, (1 << 63) - 1, -(1 << 63)):
        teller.renew(BOB, token.hmac, period_ms)
        teller.describe(ALICE, ALICE)
    for user in (CAROL, ADMIN, BOB):
        teller.expire(user, token.hmac, 600_000)
    teller.expire(CAROL, token.hmac)
    teller.expire(BOB, token.hmac)
    teller.expire(BOB, token.hmac)
    teller.renew(ALICE, token.hmac)


def _no_users(teller: Teller) -> None:
    for owner, kind in ((None, "Group"), (None, ""), (CAROL, "Group"), ("", "Group")):
        request = CreateDelegationTokenRequest(
            None if owner is None else "User", owner, [CreatableRenewers(kind, "x")], -1
        )
        teller.made(teller.wire(ALICE).ask(ApiKey.CREATE_DELEGATION_TOKEN, 3, request))


def _no_hmac(teller: Teller) -> None:
    for of_hmac in (b"", b"x", b"x" * 64, b"x" * 10_000):
        teller.renew(ALICE, of_hmac)
        teller.expire(ALICE, of_hmac)
        teller.expire(ALICE, of_hmac, 5)


def _expired(teller: Teller) -> None:
    """Neither its owner renews it, nor does anybody else; it may be taken away."""
    token = teller.create(ALICE, BOB)
    teller.expire(ALICE, token.hmac, 0)
    until("its time is over", lambda: teller.wire(ALICE).ask(
        ApiKey.RENEW_DELEGATION_TOKEN, 2, RenewDelegationTokenRequest(token.hmac, 1)
    ).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED)  # fmt: skip
    for user in (ALICE, BOB, CAROL):
        teller.renew(user, token.hmac)
        teller.expire(user, token.hmac, 60_000)
    teller.expire(ALICE, token.hmac)


def _by_token(teller: Teller) -> None:
    """As its owner, for as long as the token lasts; from a token no other one is made."""
    for mechanism in ScramMechanism:
        token = teller.create(ALICE, BOB)
        wire = teller.log_in(token, mechanism)
        teller.made(create(wire))
        for key, version, request in (
            (ApiKey.RENEW_DELEGATION_TOKEN, 2, RenewDelegationTokenRequest(token.hmac, 1)),
            (ApiKey.EXPIRE_DELEGATION_TOKEN, 2, ExpireDelegationTokenRequest(token.hmac, -1)),
            (ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, DescribeDelegationTokenRequest(None)),
        ):
            teller.told.append(str(wire.ask(key, version, request)))
        teller.expire(BOB, token.hmac)
        until("nobody logs in by it", lambda one=token, how=mechanism: bool(_told(teller, one, how)))  # type: ignore[misc]
        teller.log_in(token, mechanism)


def _told(teller: Teller, token: CreateDelegationTokenResponse, mechanism: ScramMechanism) -> int:
    with closing(FrameSocket(teller.server.address)) as wire:
        return int(log_in_by(wire, token, mechanism).error_code)


def _wrong_logins(teller: Teller) -> None:
    token = teller.create(ALICE)
    password = base64.b64encode(token.hmac).decode()
    for user, secret, by_token in (
        (token.token_id, "guess", True), (token.token_id, password, False), ("nobody", password, True),
        (ALICE, f"of-{ALICE}", True),
    ):  # fmt: skip
        with closing(FrameSocket(teller.server.address)) as wire:
            teller.told.append(str(log_in(wire, user, secret, by_token=by_token)))
    teller.expire(ALICE, token.hmac)


def _renewed_session(teller: Teller) -> None:
    """By the same token; by another one of the same owner; not as somebody else."""
    first, other = teller.create(ALICE), teller.create(ALICE)
    foreign = teller.create(BOB)
    mechanism = ScramMechanism.SCRAM_SHA_512
    for token in (first, other, foreign):
        wire = teller.log_in(first, mechanism)
        answer = log_in_by(wire, token, mechanism)
        teller.told.append(f"{answer.error_code} {answer.error_message}")
    for token, user in ((first, ALICE), (other, ALICE), (foreign, BOB)):
        teller.expire(user, token.hmac)


STORIES: dict[str, Story] = {
    "a token of one's own": _own_token,
    "renewers": _renewers,
    "principals that are no users": _no_users,
    "an unknown HMAC": _no_hmac,
    "a token that has expired": _expired,
    "logins by token": _by_token,
    "wrong logins by token": _wrong_logins,
    "a renewed session": _renewed_session,
}


@pytest.mark.parametrize("story", drawn("delegation tokens", sorted(STORIES), 5))
def test_a_request_about_tokens_is_answered_as_kafka_answers_it(
    story: str, ours: TokenServer, kafka: TokenServer
) -> None:
    assert told(ours, STORIES[story]) == told(kafka, STORIES[story])


def told(server: TokenServer, story: Story, acls: Sequence[AclBinding] = ()) -> list[str]:
    with closing(Teller(server)) as teller:
        teller.set_acls(acls)
        story(teller)
        return teller.told


def _for_another(teller: Teller) -> None:
    """Alice asks for a token of carol, who has one too; then it is looked at and logged in with."""
    own = teller.create(CAROL)
    made = teller.create(ALICE, owner=CAROL)
    for owners in ((ALICE,), (CAROL,), (CAROL, ALICE, "nobody"), ()):
        teller.describe(ALICE, *owners)
    for user in (ALICE, BOB, CAROL):
        teller.describe(user, every=True)
    if not made.error_code:
        wire = teller.log_in(made, ScramMechanism.SCRAM_SHA_256)
        teller.made(create(wire))
        teller.renew(ALICE, made.hmac)
        teller.expire(ALICE, made.hmac)
        teller.expire(CAROL, made.hmac)
    teller.expire(CAROL, own.hmac)


CREATE, DESCRIBE = Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS
ACLS: dict[str, list[AclBinding]] = {
    "none": [],
    "made for carol": [allowed(ALICE, CREATE, Resource.USER, "User:carol")],
    "made for everybody": [allowed(ALICE, CREATE, Resource.USER)],
    "made for the name alone": [allowed(ALICE, CREATE, Resource.USER, CAROL)],
    "made for others only": [allowed(ALICE, CREATE, Resource.USER, "User:bob")],
    "everything with users": [allowed(ALICE, Operation.ALL, Resource.USER)],
    "denied": [allowed(ALICE, Operation.ALL, Resource.USER),
               allowed(ALICE, CREATE, Resource.USER, "User:carol", Permission.DENY)],
    "seen by their owner": [allowed(BOB, DESCRIBE, Resource.USER, "User:carol")],
    "seen as what they are": [allowed(BOB, Operation.DESCRIBE, Resource.DELEGATION_TOKEN)],
    "seen by neither": [
        allowed(BOB, DESCRIBE, Resource.USER), allowed(BOB, Operation.DESCRIBE, Resource.DELEGATION_TOKEN),
        allowed(BOB, DESCRIBE, Resource.USER, "*", Permission.DENY),
        allowed(BOB, Operation.DESCRIBE, Resource.DELEGATION_TOKEN, "*", Permission.DENY),
    ],
    "read, which implies to see": [allowed(BOB, Operation.READ, Resource.DELEGATION_TOKEN)],
    "the cluster": [allowed(ALICE, Operation.ALL, Resource.CLUSTER, "kafka-cluster")],
}  # fmt: skip


@pytest.mark.parametrize("case", drawn("ACLs of tokens", sorted(ACLS), 4))
def test_a_user_makes_and_sees_tokens_of_others_as_with_kafka(
    case: str, ours: TokenServer, kafka: TokenServer
) -> None:
    acls = ACLS[case]
    assert told(ours, _for_another, acls) == told(kafka, _for_another, acls)


def java_properties(folder: Path, name: str, module: str, login: str, mechanism: str) -> Path:
    """A client of Kafka's own that logs in so."""
    properties = folder / f"{name}.properties"
    properties.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f"sasl.jaas.config={MODULE}.{module} required {login};\n"
    )
    return properties


@pytest.mark.parametrize("mechanism", drawn("mechanisms of tokens", sorted(SCRAM_BY_TITLE), 1))
def test_kafkas_tool_and_client_go_on_with_our_tokens(
    mechanism: str, ours: TokenServer, tmp_path: Path
) -> None:
    """The tool makes a token, renews and ends it; a Java client logs in by it, and is let in
    no more when it has ended."""
    with closing(Teller(ours)) as teller:
        teller.set_acls([])
    alice = java_properties(
        tmp_path, ALICE, "plain.PlainLoginModule", f'username="{ALICE}" password="of-{ALICE}"', PLAIN
    )

    def tool(*words: str) -> str:
        at = ["--bootstrap-server", ours.address, "--command-config", str(alice)]
        done = run_tool("kafka-delegation-tokens", [*at, *words], folder=tmp_path)
        assert not done.returncode, done.stderr.decode()
        return done.stdout.decode()

    made = tool("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    assert "User:bob" in made
    [(token_id, password)] = re.findall(r"^([\w-]{22})\s+(\S{88})\s", made, re.MULTILINE)
    by_token = java_properties(
        tmp_path, "token", "scram.ScramLoginModule",
        f'username="{token_id}" password="{password}" tokenauth="true"', mechanism,
    )  # fmt: skip
    assert not _listed_topics(ours, by_token, tmp_path).returncode
    assert "Completed" in tool("--renew", "--renew-time-period", "60000", "--hmac", password)
    assert "Completed" in tool("--expire", "--expiry-time-period", "-1", "--hmac", password)
    refused = _listed_topics(ours, by_token, tmp_path)
    assert refused.returncode
    assert b"SaslAuthenticationException" in refused.stdout + refused.stderr


def _listed_topics(
    server: TokenServer, properties: Path, folder: Path
) -> subprocess.CompletedProcess[bytes]:
    """A request that nobody is refused."""
    words = ["--bootstrap-server", server.address, "--command-config", str(properties), "--list"]
    return run_tool("kafka-topics", words, folder=folder)

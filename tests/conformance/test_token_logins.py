"""Logins by tokens beside Apache Kafka 4.4: the same bytes get the same answers from both, and the
same clients get in or are told the same.

Both servers have one listener, SASL_PLAINTEXT, offer OAUTHBEARER and PLAIN, and read the keys of
one issuer from a file. `ONLY_KAFKA_TAKES` and `OTHERWISE` are what differs.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AsyncTokenProvider
from aiokafka.errors import KafkaError as AsyncKafkaError
from confluent_kafka import KafkaError, Producer
from kafka import KafkaProducer
from kafka.errors import KafkaError as PythonKafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider

from bus.security.java_config import java_config, java_properties
from bus.security.oauth_bearer import ClientFirstMessage
from bus.security.sasl_server import OAUTHBEARER, PLAIN
from deploy.errors import Unavailable
from deploy.servers.databus import start_broker
from deploy.servers.kafka import run_tool, start_kafka
from tests.conformance.test_logins import (
    DEADLINE_S,
    LET_IN,
    NamedServer,
    Wire,
    _silent,
    plain,
    tell,
)
from tests.rotation import drawn
from tests.tls_files import TlsFiles
from tests.token_issuer import (
    AUDIENCE,
    CLIENT_ID,
    CLIENT_SECRET,
    HOUR_S,
    ISSUER,
    SigningKey,
    TokenIssuer,
    base64url,
    signed_with_secret,
    token_service,
    token_settings,
    unsigned,
)

pytestmark = [pytest.mark.java, pytest.mark.slow]

PASSWORD = "of-the-node"
FOREIGN = SigningKey("rsa", "RS256")
"""Another one's key under an id of the issuer's."""


class Servers(NamedTuple):
    """Both, and whose tokens they take."""

    ours: NamedServer
    kafka: NamedServer
    issuer: TokenIssuer


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    issuer = TokenIssuer()
    keys = tmp_path_factory.mktemp("keys") / "keys.json"
    keys.write_bytes(issuer.key_set())
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    settings = {
        **token_settings("SASL_PLAINTEXT", keys),
        "sasl.enabled.mechanisms": f"{PLAIN},{OAUTHBEARER}",
        "sasl.mechanism.inter.broker.protocol": PLAIN,
        "connection.failed.authentication.delay.ms": "0",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'{module} required username="node" password="{PASSWORD}" user_node="{PASSWORD}";'
        ),
    }
    allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
    ours = start_broker(tmp_path_factory.mktemp("ours"), {
        **settings, "listeners": "SASL_PLAINTEXT://127.0.0.1:0"})  # fmt: skip
    try:
        kafka = start_kafka(
            tmp_path_factory.mktemp("kafka"), settings=settings, heap="512m",
            protocol="SASL_PLAINTEXT",
            options=[f"{allowed}.urls={keys.as_uri()}", f"{allowed}.files={keys}"],
        )  # fmt: skip
    except Unavailable as missing:
        ours.stop()
        pytest.skip(f"Apache Kafka 4.4: {missing}")
    with kafka:
        try:
            yield Servers(
                NamedServer("ours", ours.bootstrap), NamedServer("kafka", kafka.address), issuer
            )
        finally:
            ours.stop()


def first(token: str, authorization: str = "", **extensions: str) -> bytes:
    return ClientFirstMessage(token, authorization, extensions).encode()


def sent(*messages: bytes) -> Callable[[NamedServer], list[str]]:
    """What the server says to each, and whether it then serves. How long a session lasts is told
    in whole minutes: the servers' clocks read other milliseconds."""

    def rounded(wire: Wire, message: bytes) -> str:
        said = wire.token(message)
        return re.sub(
            r"session_lifetime_ms=(\d+)", lambda at: f"minutes={round(int(at[1]) / 60_000)}", said
        )

    return tell(
        lambda wire: wire.handshake(OAUTHBEARER),
        *(lambda wire, one=one: rounded(wire, one) for one in messages),
        lambda wire: wire.metadata(),
    )


def good_tokens(issuer: TokenIssuer) -> dict[str, str]:
    now = int(time.time())
    ec, wide, rsa = issuer.keys["ec"], issuer.keys["wide"], issuer.keys["rsa"]
    token: Callable[..., str] = issuer.token
    return {
        "as it should be": token(),
        **{f"by {one}": token(algorithm=one) for one in ("RS384", "RS512", "PS256", "PS384", "PS512")},
        "by ES256": token(key=ec),
        "by ES512": token(key=wide),
        "without the id of its key": token(header={"kid": None}),
        "of another type": token(header={"typ": "at+jwt"}),
        "for several audiences": token(aud=["other", AUDIENCE]),
        ENDS_AT_ONCE: token(exp=now - 5, iat=now - 100),
        "in force soon": token(nbf=now + 5),
        "issued in an hour": token(iat=now + HOUR_S, exp=now + 2 * HOUR_S),
        "with scopes": token(scope=["read", "write"]),
        "with a scope of words": token(scope="read write"),
        "with times in fractions": token(exp=now + HOUR_S + 0.5, iat=now + 0.25),
        "of a user with spaces": token(" camera 7 "),
        "of a user in Chinese": token("摄像机"),
        "signed by a key without a name": token(key=rsa, header={"x5t": "abc", "extra": 7}),
    }


def bad_tokens(issuer: TokenIssuer) -> dict[str, str]:
    now = int(time.time())
    claims = issuer.claims()
    token: Callable[..., str] = issuer.token
    whole = token()
    header, payload, signature = whole.split(".")
    told: dict[str, Any] = {"alg": "HS256", "kid": "rsa"}
    pem = issuer.keys["rsa"].public_pem
    none = unsigned({"alg": "none"}, claims)
    return {
        "no token": "garbage",
        "two parts": f"{header}.{payload}",
        "an empty signature": f"{header}.{payload}.",
        "not signed": f"{none}.",
        "not signed, with something": f"{none}.{signature}",
        "not signed, in capitals": f"{unsigned({'alg': 'NONE', 'kid': 'rsa'}, claims)}.{signature}",
        "signed with the public key": signed_with_secret(told, claims, pem),
        "signed with the public key, shorter": signed_with_secret(told, claims, pem.strip()),
        "signed with nothing": signed_with_secret(told, claims, b""),
        "without an algorithm": f"{unsigned({'kid': 'rsa'}, claims)}.{signature}",
        "by another's key": token(key=FOREIGN),
        "by another's key, which it brings": token(key=FOREIGN, header={"jwk": FOREIGN.public}),
        "by another's key, without its id": token(key=FOREIGN, header={"kid": None}),
        "with the id of a key of another kind": token(header={"kid": "ec"}),
        "by an unknown key": token(header={"kid": "new"}),
        "with a number as the key's id": token(header={"kid": 7}),
        "with something critical": token(header={"crit": ["city"], "city": 1}),
        "changed": f"{header}.{base64url(b'{}')}.{signature}",
        "changed at the end": whole[:-4] + ("AAAA" if not whole.endswith("AAAA") else "BBBB"),
        "ended": token(exp=now - 31, iat=now - HOUR_S),
        "ended an hour ago": token(exp=now - HOUR_S, iat=now - 2 * HOUR_S),
        "not in force yet": token(nbf=now + HOUR_S),
        "in force after its end": token(nbf=now + 2 * HOUR_S),
        "issued after its end": token(iat=now + 3 * HOUR_S),
        "for another audience": token(aud="other"),
        "for no audience": token(aud=None),
        "of another issuer": token(iss=f"{ISSUER}/"),
        "of no issuer": token(iss=None),
        "without an end": token(exp=None),
        "without a beginning": token(iat=None),
        "with an end in words": token(exp=str(now + HOUR_S)),
        "that ends in the truth": token(exp=True),
        "of nobody": token("camera", sub=None),
        "of an empty user": token("  "),
        "of a numbered user": token("camera", sub=7),
        "with an empty scope": token(scope=""),
        "with a scope twice": token(scope=["read", "read"]),
        "with claims that are none": f"{unsigned({'alg': 'RS256', 'kid': 'rsa'}, [1])}.{signature}",
        "of a hundred thousand characters": token(x="x" * 75_000),
    }  # fmt: skip


ENDS_AT_ONCE = "ended just now"
"""By the clock's allowance it is taken; then its session is over."""
LARGE = "of a hundred thousand characters"
ONLY_KAFKA_TAKES = {LARGE}
OTHERWISE = {"a padded token", "another scheme", "another token after a refusal"}
"""Padding is not base64url, and jose4j takes it; Kafka hangs up without a word, as it fails to
format what it wants to say; and it judges as many tokens in one login as a client sends."""


def messages(issuer: TokenIssuer) -> dict[str, tuple[bytes, ...]]:
    """Other first messages, and what may follow."""
    token = issuer.token()
    bad = first("garbage")
    return {
        "the byte after a refusal": (bad, b"\x01"),
        "the byte at once": (b"\x01",),
        "another message after a refusal": (bad, b"garbage"),
        "another token after a refusal": (bad, first(token)),
        "nothing": (b"",),
        "garbage": (b"garbage",),
        "no UTF-8": (b"\xff\xfe",),
        "another user": (first(token, "camera-7"),),
        "another user than the token's": (first(token, "root"),),
        "extensions": (first(token, logicalCluster="lkc-1", traceId="a b"),),
        "small letters": (b"n,,\x01auth=bearer " + token.encode() + b"\x01\x01",),
        "another scheme": (b"n,,\x01auth=Basic " + token.encode() + b"\x01\x01",),
        "no scheme": (b"n,,\x01auth=" + token.encode() + b"\x01\x01",),
        "no token": (b"n,,\x01auth=Bearer \x01\x01",),
        "no end": (b"n,,\x01auth=Bearer " + token.encode() + b"\x01",),
        "no authorization": (b"n,,\x01x=y\x01\x01",),
        "nothing in it": (b"n,,\x01\x01",),
        "binding": (b"y,,\x01auth=Bearer " + token.encode() + b"\x01\x01",),
        "an extension without a value": (b"n,,\x01auth=Bearer t\x01x=\x01\x01",),
        "an extension with a digit": (b"n,,\x01auth=Bearer t\x01x1=y\x01\x01",),
        "the token twice": (
            b"n,,\x01auth=Bearer x\x01auth=Bearer " + token.encode() + b"\x01\x01",
        ),
        "a padded token": (b"n,,\x01auth=Bearer " + token.encode() + b"==\x01\x01",),
        "a token with spaces": (b"n,,\x01auth=Bearer   " + token.encode() + b"\x01\x01",),
    }


@pytest.mark.timeout(300)
def test_each_token_is_taken_or_refused_as_kafka_does_it(servers: Servers) -> None:
    """In the same words. What is told after a refusal is told once the client has said that it has
    read it."""
    stories = {
        **{name: sent(first(one)) for name, one in good_tokens(servers.issuer).items()},
        **{name: sent(first(one), b"\x01") for name, one in bad_tokens(servers.issuer).items()},
    }
    said = [{name: story(one) for name, story in stories.items()} for one in servers[:2]]
    differing = {name for name in stories if said[0][name] != said[1][name]}
    assert differing == ONLY_KAFKA_TAKES, {name: (said[0][name], said[1][name]) for name in differing}
    for name in good_tokens(servers.issuer):
        last = "closed" if name == ENDS_AT_ONCE else "served"
        assert said[0][name][-1] == last, (name, said[0][name])
    for name in bad_tokens(servers.issuer):
        assert said[0][name][-1] == "closed", (name, said[0][name])


@pytest.mark.timeout(300)
def test_each_message_is_answered_as_kafka_answers_it(servers: Servers) -> None:
    stories = {name: sent(*each) for name, each in messages(servers.issuer).items()}
    said = [{name: story(one) for name, story in stories.items()} for one in servers[:2]]
    differing = {name: (said[0][name], said[1][name]) for name in stories
                 if said[0][name] != said[1][name]}  # fmt: skip
    assert set(differing) == OTHERWISE, differing


def renewed(token: str) -> Callable[[Wire], str]:
    def told(wire: Wire) -> str:
        return re.sub(r"lifetime_ms=\d+", "lifetime", f"{wire.handshake(OAUTHBEARER)} "
                      f"{wire.token(first(token))}")  # fmt: skip

    return told


@pytest.mark.timeout(300)
def test_a_session_is_renewed_by_the_same_user_only(servers: Servers) -> None:
    """Sessions have an end because tokens have one: `connections.max.reauth.ms` is not set. One
    that has no password to begin with is not renewed."""
    issuer = servers.issuer
    begun = renewed(issuer.token())
    stories = {
        "by a newer token": tell(begun, renewed(issuer.token(exp=int(time.time()) + 7200)),
                                 Wire.metadata),
        "by another's token": tell(begun, renewed(issuer.token("other")), Wire.metadata),
        "by a bad token": tell(begun, renewed("garbage"), lambda wire: wire.token(b"\x01"),
                               Wire.metadata),
        "too early a second time": tell(begun, renewed(issuer.token()), renewed(issuer.token()),
                                        Wire.metadata),
        "by a password": tell(begun, lambda wire: wire.handshake(PLAIN),
                              lambda wire: wire.token(plain("node", PASSWORD))),
        "of a password": tell(lambda wire: wire.log_in(PLAIN, "node", PASSWORD),
                              lambda wire: wire.handshake(PLAIN), Wire.metadata),
    }  # fmt: skip
    said = [{name: story(one) for name, story in stories.items()} for one in servers[:2]]
    assert said[0] == said[1]


# -- clients ------------------------------------------------------------------------


def attempts(issuer: TokenIssuer) -> dict[str, str]:
    """Tokens of clients; all end later than now, as clients send no others."""
    now = int(time.time())
    return {
        "good": issuer.token(),
        "of another audience": issuer.token(aud="other"),
        "of a swapped key": issuer.token(key=FOREIGN),
        "an hour too early": issuer.token(iat=now + HOUR_S, nbf=now + HOUR_S, exp=now + 2 * HOUR_S),
    }


def by_librdkafka(server: NamedServer, token: str, folder: Path) -> str:
    errors: list[KafkaError] = []
    producer = Producer({
        "bootstrap.servers": server.address, "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": OAUTHBEARER, "oauth_cb": lambda _: (token, time.time() + HOUR_S),
        "error_cb": errors.append, "logger": _silent(),
    })  # fmt: skip
    until = time.monotonic() + DEADLINE_S
    while time.monotonic() < until:
        with suppress(Exception):
            producer.list_topics(timeout=0.5)
            return LET_IN
        producer.poll(0)
        refused = [one for one in errors if one.code() == KafkaError._AUTHENTICATION]
        if refused:
            return str(refused[0].str()).partition(": ")[2].partition(" (after")[0]
    return "no answer"


def by_kafka_python(server: NamedServer, token: str, folder: Path) -> str:
    class GivenToken(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return token

    try:
        producer = KafkaProducer(
            bootstrap_servers=server.address, security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=OAUTHBEARER, sasl_oauth_token_provider=GivenToken(),
            bootstrap_timeout_ms=3000,
        )  # fmt: skip
    except PythonKafkaError as error:
        return type(error).__name__
    with closing(producer):
        return LET_IN


def by_aiokafka(server: NamedServer, token: str, folder: Path) -> str:
    """It takes the server's reason for the end of the login, and goes on with its next request:
    Kafka answers that with an error before it hangs up, we hang up."""
    class AsyncGivenToken(AsyncTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return token

    async def tried() -> str:
        producer = AIOKafkaProducer(
            bootstrap_servers=server.address, security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=OAUTHBEARER, sasl_oauth_token_provider=AsyncGivenToken(),
        )  # fmt: skip
        try:
            await producer.start()
        except AsyncKafkaError:
            return "not let in"
        finally:
            await producer.stop()
        return LET_IN if producer.client.cluster.brokers() else "not let in"

    return asyncio.run(asyncio.wait_for(tried(), DEADLINE_S))


def by_java(server: NamedServer, token: str, folder: Path) -> str:
    """Its own handler reads the token from a file."""
    package = "org.apache.kafka.common.security.oauthbearer"
    held, file = folder / "token", folder / "java.properties"
    held.write_text(token, "ascii")
    keys = {
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": OAUTHBEARER,
        "sasl.jaas.config": f"{package}.OAuthBearerLoginModule required;",
        "sasl.login.callback.handler.class": f"{package}.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": held.as_uri(),
    }  # fmt: skip
    file.write_text("".join(f"{key}={value}\n" for key, value in keys.items()), "utf-8")
    allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
    done = run_tool(
        "kafka-topics",
        ["--bootstrap-server", server.address, "--command-config", str(file), "--list"],
        folder=folder, options=[f"{allowed}.urls={held.as_uri()}", f"{allowed}.files={held}"],
    )  # fmt: skip
    if done.returncode == 0:
        return LET_IN
    said = (done.stdout + done.stderr).decode()
    reasons = [line.partition("Exception: ")[2] for line in said.splitlines() if "Exception:" in line]
    return reasons[-1] if reasons else said


CLIENTS = {
    "librdkafka": by_librdkafka, "kafka-python": by_kafka_python, "aiokafka": by_aiokafka,
    "java": by_java,
}  # fmt: skip


@pytest.mark.timeout(400)
@pytest.mark.parametrize("client", drawn("clients with tokens", list(CLIENTS)))
def test_a_client_gets_in_or_is_told_what_it_is_told_by_kafka(
    servers: Servers, client: str, tmp_path: Path
) -> None:
    for name, token in attempts(servers.issuer).items():
        told = [CLIENTS[client](server, token, tmp_path) for server in servers[:2]]
        assert told[0] == told[1], name
        assert (told[0] == LET_IN) is (name == "good"), (name, told)


@pytest.mark.timeout(300)
def test_javas_client_logs_in_by_the_keys_that_spark_gets(servers: Servers, tmp_path: Path) -> None:
    """librdkafka's keys in Java's names, at a token service over HTTPS that a private authority
    vouches for; its JVM is told that the address may be asked."""
    tls, file = TlsFiles(tmp_path), tmp_path / "java.properties"
    with token_service(servers.issuer, tls) as service:
        librdkafka = {
            "security.protocol": "sasl_plaintext", "sasl.mechanism": OAUTHBEARER,
            "sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.id": CLIENT_ID,
            "sasl.oauthbearer.client.secret": CLIENT_SECRET,
            "sasl.oauthbearer.token.endpoint.url": service.url("/token"),
            "sasl.oauthbearer.scope": "bus", "https.ca.location": str(tls.authority),
        }  # fmt: skip
        java = java_config(librdkafka, {}, lambda path: Path(path).read_text("ascii"))
        lines = (f"{key}={value}\n" for key, value in java.items())
        file.write_text("".join(lines).replace("\\", "\\\\"), "utf-8")
        options = [f"-D{name}={value}" for name, value in java_properties(librdkafka).items()]
        for server in servers[:2]:
            done = run_tool(
                "kafka-topics",
                ["--bootstrap-server", server.address, "--command-config", str(file), "--list"],
                folder=tmp_path, options=options,
            )  # fmt: skip
            assert done.returncode == 0, (done.stdout + done.stderr).decode()
        assert set(service.scopes) == {"bus"}

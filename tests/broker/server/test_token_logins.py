"""Logins by tokens at a real broker: keys from a file and over HTTPS, renewed, gone, slow."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest
from confluent_kafka import Producer

from bus.client.wire.channel import PeerChannel, PeerError, PeerErrorKind
from bus.client.wire.loop_ports import LoopClock, LoopConnector
from bus.client.wire.ports import addresses
from bus.client.wire.sasl import SaslLogin
from bus.client.wire.security import WireSecurity, wire_security
from bus.client.wire.sync_client import SyncConnection
from bus.errors import BusError, ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.metadata import MetadataRequest
from bus.security.sasl_server import OAUTHBEARER, PLAIN
from deploy.servers.databus import BrokerStartError, RunningBroker, start_broker
from tests.broker.server.cluster_with_acls import DEADLINE_S, until
from tests.tls_files import TlsFiles
from tests.token_issuer import (
    CLIENT_ID,
    CLIENT_SECRET,
    SigningKey,
    TokenIssuer,
    TokenService,
    token_service,
    token_settings,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PASSWORD = "of-the-node"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
TOKEN_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
LOGINS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": f"{PLAIN},{OAUTHBEARER}",
    "sasl.mechanism.inter.broker.protocol": PLAIN,
    "connection.failed.authentication.delay.ms": "0",
    "plain.sasl.jaas.config": (
        f'{PLAIN_MODULE} required username="node" password="{PASSWORD}" user_node="{PASSWORD}";'
    ),
}


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return TlsFiles(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def service(tls: TlsFiles) -> Iterator[TokenService]:
    with token_service(TokenIssuer(), tls) as running:
        yield running


@contextmanager
def broker_with(folder: Path, keys: Path | str, **more: str) -> Iterator[RunningBroker]:
    """`more`: of its settings, with __ for dots."""
    given = {name.replace("__", "."): value for name, value in more.items()}
    running = start_broker(folder, {**LOGINS, **token_settings("SASL_PLAINTEXT", keys), **given})
    try:
        yield running
    finally:
        running.stop()


def trusting(tls: TlsFiles) -> dict[str, str]:
    """Whose certificate the token service has, as Kafka's brokers are told it."""
    return {"listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": (
        f'{TOKEN_MODULE} required ssl.truststore.type="PEM" '
        f'ssl.truststore.location="{tls.authority}";'
    )}  # fmt: skip


class OneToken:
    """A client that has one token, and gets no other."""

    is_prepared = True

    def __init__(self, token: str) -> None:
        self._token = token

    def prepare(self) -> None:
        pass

    def held(self) -> str:
        return self._token


def connected(broker: RunningBroker, token: str) -> SyncConnection:
    login = SaslLogin(OAUTHBEARER, "test", "", OneToken(token))
    return SyncConnection(addresses(broker.bootstrap)[0], "test", security=WireSecurity(None, login))


def is_let_in(broker: RunningBroker, token: str) -> bool:
    try:
        with closing(connected(broker, token)) as client:
            client.request(ApiKey.METADATA, MetadataRequest())
    except BusError as error:
        if error.code is not ErrorCode.SASL_AUTHENTICATION_FAILED or "invalid_token" not in error.detail:
            raise
        return False
    return True


def oidc_keys(service: TokenService, tls: TlsFiles, **more: str) -> dict[str, str]:
    """Of librdkafka, and of our own client."""
    return {
        "security.protocol": "sasl_plaintext", "sasl.mechanism": OAUTHBEARER,
        "sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.id": CLIENT_ID,
        "sasl.oauthbearer.client.secret": CLIENT_SECRET, "https.ca.location": str(tls.authority),
        "sasl.oauthbearer.token.endpoint.url": service.url("/token"), **more,
    }  # fmt: skip


# -- keys ---------------------------------------------------------------------------


def test_a_changed_file_of_keys_counts_without_a_restart(tmp_path: Path) -> None:
    """A key is exchanged; one that cannot be read changes nothing, and is a line of the log."""
    issuer, file = TokenIssuer(), tmp_path / "keys.json"
    file.write_bytes(issuer.key_set())
    with broker_with(tmp_path / "broker", file) as broker:
        before = issuer.token()
        assert is_let_in(broker, before)
        issuer.keys = {"newer": SigningKey("newer", "ES256")}
        after = issuer.token(key=issuer.keys["newer"])
        assert not is_let_in(broker, after)
        replaced = tmp_path / "next.json"
        replaced.write_bytes(issuer.key_set())
        replaced.replace(file)
        until("the newer key counts", lambda: is_let_in(broker, after))
        assert not is_let_in(broker, before)
        file.write_text("garbage")
        until("the log names the file", lambda: (
            f"stay in force: {file}: it is no JSON" in broker.log_path.read_text("utf-8")))  # fmt: skip
        assert is_let_in(broker, after)


def test_a_file_without_keys_keeps_the_broker_from_starting(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text('{"keys":[]}')
    with pytest.raises(BrokerStartError) as refused, broker_with(tmp_path / "broker", file):
        pass
    assert "it has no key that checks signatures" in str(refused.value)
    assert f"oauthbearer.sasl.oauthbearer.jwks.endpoint.url: {file}" in str(refused.value)


def test_keys_over_https_are_fetched_again_for_a_key_that_is_not_known(
    service: TokenService, tls: TlsFiles, tmp_path: Path
) -> None:
    """Once, however many such tokens come; while the service is down the known keys go on, and when
    it is there again it is asked."""
    issuer = service.issuer
    with broker_with(tmp_path, service.url("/keys"), **trusting(tls)) as broker:
        old = issuer.token()
        assert is_let_in(broker, old)
        assert service.asked["/keys"] == 1
        issuer.keys["newer"] = SigningKey("newer", "ES256")
        new = issuer.token(key=issuer.keys["newer"])
        until("the newer key is fetched", lambda: is_let_in(broker, new))
        assert service.asked["/keys"] == 2
        began = time.monotonic()
        for number in range(50):
            assert not is_let_in(broker, issuer.token(header={"kid": f"unknown-{number}"}))
        assert service.asked["/keys"] <= 3 + (time.monotonic() - began) // 10
        service.is_down = True
        asked = service.asked["/keys"]
        issuer.keys["newest"] = SigningKey("newest", "ES256")
        newest = issuer.token(key=issuer.keys["newest"])

        def has_asked_again() -> bool:
            assert not is_let_in(broker, newest)
            return service.asked["/keys"] > asked + 1

        until("the service is asked while it is down", has_asked_again)
        assert is_let_in(broker, old)
        assert is_let_in(broker, new)
        service.is_down, service.body = False, b"garbage"
        asked = service.asked["/keys"]
        until("the service is asked for garbage", has_asked_again)
        assert is_let_in(broker, old)
        service.body = None
        until("the newest key is fetched", lambda: is_let_in(broker, newest))
        log = broker.log_path.read_text("utf-8")
        assert log.count("stay in force") == 1, "one line, however long it lasts"
        assert log.count("can be fetched again") == 1


def test_the_service_may_be_down_when_a_broker_starts(
    service: TokenService, tls: TlsFiles, tmp_path: Path
) -> None:
    """Passwords let in meanwhile, and no token."""
    service.is_down = True
    with broker_with(tmp_path, service.url("/keys"), **trusting(tls)) as broker:
        node = wire_security({"security.protocol": "sasl_plaintext", "sasl.mechanism": PLAIN,
                              "sasl.username": "node", "sasl.password": PASSWORD})  # fmt: skip
        SyncConnection(addresses(broker.bootstrap)[0], "test", security=node).close()
        token = service.issuer.token()
        assert not is_let_in(broker, token)
        service.is_down = False
        until("the keys are fetched", lambda: is_let_in(broker, token))


def test_a_service_whose_certificate_nobody_vouches_for_gives_no_keys(
    service: TokenService, tmp_path: Path
) -> None:
    with broker_with(tmp_path, service.url("/keys")) as broker:
        assert not is_let_in(broker, service.issuer.token())
        assert service.asked["/keys"] == 0
        assert "CERTIFICATE_VERIFY_FAILED" in broker.log_path.read_text("utf-8")


def test_a_service_that_does_not_answer_holds_nobody(
    service: TokenService, tls: TlsFiles, tmp_path: Path
) -> None:
    """A fetch is under way all the time; others are served meanwhile."""
    every = {"sasl.oauthbearer.jwks.endpoint.refresh.ms": "1"}
    with broker_with(tmp_path, service.url("/keys"), **trusting(tls), **every) as broker:
        token = service.issuer.token()
        asked = service.asked["/keys"]
        service.goes_on.clear()
        until("a fetch waits", lambda: service.asked["/keys"] > asked)
        slowest = 0.0
        for _ in range(50):
            began = time.monotonic()
            assert is_let_in(broker, token)
            slowest = max(slowest, time.monotonic() - began)
        print(f"the slowest login while a fetch waits: {slowest:.3f} s")
        assert service.asked["/keys"] == asked + 1, "one fetch at a time"
        service.goes_on.set()


# -- sessions -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def issuer() -> TokenIssuer:
    return TokenIssuer()


@pytest.fixture(scope="module")
def broker(issuer: TokenIssuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """Keys in a file."""
    folder = tmp_path_factory.mktemp("tokens")
    (folder / "keys.json").write_bytes(issuer.key_set())
    with broker_with(folder / "broker", folder / "keys.json") as running:
        yield running


def test_a_session_ends_with_its_token(broker: RunningBroker, issuer: TokenIssuer) -> None:
    """Although `connections.max.reauth.ms` sets no end."""
    end = int(time.time()) + 3
    with closing(connected(broker, issuer.token(exp=end))) as client:
        client.request(ApiKey.METADATA, MetadataRequest())

        def is_closed() -> bool:
            try:
                client.request(ApiKey.METADATA, MetadataRequest())
            except BusError as error:
                return error.code is ErrorCode.NETWORK_EXCEPTION
            return False

        until("the session ends", is_closed)
        assert time.time() >= end - 1


def test_librdkafka_renews_its_session_with_a_newer_token(
    broker: RunningBroker, issuer: TokenIssuer
) -> None:
    """Its connection stays: the broker closes none whose session is renewed in time."""
    given: list[float] = []

    def fresh(_: str) -> tuple[str, float]:
        end = int(time.time()) + 6
        given.append(end)
        return issuer.token(exp=end), end

    lost: list[str] = []
    producer = Producer({
        "bootstrap.servers": broker.bootstrap, "security.protocol": "sasl_plaintext",
        "sasl.mechanism": OAUTHBEARER, "oauth_cb": fresh,
        "error_cb": lambda error: lost.append(str(error)),
    })  # fmt: skip
    delivered: list[object] = []

    def go_on() -> bool:
        producer.produce("renewed", b"x", on_delivery=lambda error, _: delivered.append(error))
        producer.flush(DEADLINE_S)
        return len(given) >= 4

    until("the token is renewed three times", go_on)
    assert set(delivered) == {None}
    assert lost == []


# -- clients ------------------------------------------------------------------------


def test_librdkafka_and_our_client_fetch_tokens_by_the_same_keys(
    broker: RunningBroker, issuer: TokenIssuer, tls: TlsFiles
) -> None:
    """OIDC, at a real service over HTTPS; our client asks it once for many connections."""
    with token_service(issuer, tls) as service:
        keys = oidc_keys(service, tls, **{"sasl.oauthbearer.scope": "bus"})
        producer = Producer({**keys, "bootstrap.servers": broker.bootstrap})
        producer.list_topics(timeout=DEADLINE_S)
        asked, security = service.asked["/token"], wire_security(keys)
        for _ in range(5):
            at = addresses(broker.bootstrap)[0]
            with closing(SyncConnection(at, "test", security=security)) as client:
                client.request(ApiKey.METADATA, MetadataRequest())
        assert service.asked["/token"] == asked + 1
        assert set(service.scopes) == {"bus"}


async def test_a_channel_waits_for_its_token_and_the_loop_goes_on(
    broker: RunningBroker, issuer: TokenIssuer, tls: TlsFiles
) -> None:
    """The service answers when the loop has run on; then one that is down, and one that refuses
    the client, each with its own error."""
    with token_service(issuer, tls) as service:
        service.goes_on.clear()
        async with channel(broker, oidc_keys(service, tls)) as one:
            asking = asyncio.ensure_future(one.request(ApiKey.METADATA, MetadataRequest(), timeout_ms=60_000))
            async with asyncio.timeout(DEADLINE_S):
                while not service.asked["/token"]:
                    await asyncio.sleep(0.005)
            assert not asking.done()
            service.goes_on.set()
            assert (await asyncio.wait_for(asking, DEADLINE_S)).brokers
        wrong = oidc_keys(service, tls, **{"sasl.oauthbearer.client.secret": "planted-secret"})
        assert await refusal(broker, wrong) == (PeerErrorKind.NOT_LET_IN, "status 401")
        service.is_down = True
        assert await refusal(broker, oidc_keys(service, tls)) == (PeerErrorKind.DISCONNECTED, "status 503")


class channel:
    """A channel of the wire client to a broker."""

    def __init__(self, broker: RunningBroker, keys: Mapping[str, str]) -> None:
        security, at = wire_security(keys), addresses(broker.bootstrap)[0]
        self._channel = PeerChannel(
            LoopConnector(tls=security.tls), LoopClock(), lambda: at, client_id="test", name="test",
            login=security.login,
        )  # fmt: skip

    async def __aenter__(self) -> PeerChannel:
        return self._channel

    async def __aexit__(self, *_: object) -> None:
        self._channel.close()


async def refusal(broker: RunningBroker, keys: Mapping[str, str]) -> tuple[PeerErrorKind, str]:
    """Its kind, and the server's status that it names; never the secret."""
    async with channel(broker, keys) as one:
        with pytest.raises(PeerError) as refused:
            await one.request(ApiKey.METADATA, MetadataRequest(), timeout_ms=60_000)
    assert "planted-secret" not in str(refused.value)
    found = [word for word in ("status 401", "status 503") if word in str(refused.value)]
    return refused.value.kind, found[0]


# -- hostile ------------------------------------------------------------------------


def test_a_storm_of_bad_tokens_keeps_nobody_out(broker: RunningBroker, issuer: TokenIssuer) -> None:
    """Large ones, too; most are refused only after their signature was looked at."""
    stop, refused = Event(), [0]
    bad = [issuer.token(key=SigningKey("rsa", "RS256"), x="y" * size) for size in (0, 1000, 40_000)]

    def storm() -> None:
        while not stop.is_set():
            for token in bad:
                refused[0] += not is_let_in(broker, token)

    threads = [Thread(target=storm, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        until("tokens are refused", lambda: refused[0] > 50)
        slowest = 0.0
        for _ in range(50):
            began = time.monotonic()
            assert is_let_in(broker, issuer.token())
            slowest = max(slowest, time.monotonic() - began)
    finally:
        stop.set()
        for thread in threads:
            thread.join(DEADLINE_S)
    print(f"the slowest login among {refused[0]} refused ones: {slowest:.3f} s")
    assert slowest < DEADLINE_S


def test_no_token_stands_in_the_log(broker: RunningBroker, issuer: TokenIssuer) -> None:
    good, bad = issuer.token(), issuer.token(iss="another")
    assert is_let_in(broker, good)

    def says_why() -> bool:
        """Of many lines about clients some are left out, so that it may take more than one."""
        assert not is_let_in(broker, bad)
        return "the token is of another issuer" in broker.log_path.read_text("utf-8")

    until("the log says why", says_why)
    log = broker.log_path.read_text("utf-8")
    for token in (good, bad):
        assert not any(part in log for part in token.split(".")[1:])

"""Logins by SASL beside Apache Kafka 4.4: the same bytes get the same answers, and the same clients
get in or are told the same.

Both servers have one listener, SASL_PLAINTEXT, through which the broker logs in at itself too, and
the same users: one of PLAIN from their settings, others by AlterUserScramCredentials.
"""

from __future__ import annotations

import asyncio
import logging
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AsyncKafkaError
from confluent_kafka import KafkaError, Producer
from kafka import KafkaProducer
from kafka.errors import KafkaError as PythonKafkaError

from bus.client.wire.sasl import SaslLogin
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from bus.protocol.generated.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from bus.protocol.generated.metadata import MetadataRequest
from bus.protocol.generated.sasl_authenticate import SaslAuthenticateRequest
from bus.protocol.generated.sasl_handshake import SaslHandshakeRequest
from bus.security.sasl_server import PLAIN, SCRAM_BY_TITLE, ScramMechanism, salted
from deploy.errors import Unavailable
from deploy.servers.databus import start_broker
from deploy.servers.kafka import run_tool, start_kafka
from tests.broker.handlers.test_every_version import FrameSocket
from tests.rotation import drawn

pytestmark = [pytest.mark.java, pytest.mark.slow]

PASSWORD = 'it\'s "quoted", with \\ and = and ;'
SCRAM_PASSWORD = "scram-secret"
SALT = b"0123456789abcdef"
MECHANISMS = (PLAIN, *SCRAM_BY_TITLE)
DEADLINE_S = 60.0
SERVERS = ("ours", "kafka")


class NamedServer(NamedTuple):
    """One that serves at this address."""

    name: str
    address: str


def escaped(password: str) -> str:
    """As it stands between the quotes of JAAS."""
    return password.replace("\\", "\\\\").replace('"', '\\"')


def settings(listener: str) -> dict[str, str]:
    """Of both servers."""
    password = escaped(PASSWORD)
    module = "org.apache.kafka.common.security"
    prefix = f"listener.name.{listener.lower()}"
    return {
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "sasl.mechanism.inter.broker.protocol": PLAIN,
        "connections.max.reauth.ms": "20000",
        f"{prefix}.plain.sasl.jaas.config": (
            f'{module}.plain.PlainLoginModule required username="city" password="{password}"'
            f' user_city="{password}" user_other="{password}";'
        ),
        **{
            f"{prefix}.{one.lower()}.sasl.jaas.config": f"{module}.scram.ScramLoginModule required;"
            for one in SCRAM_BY_TITLE
        },
    }


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NamedServer]:
    running = start_broker(tmp_path_factory.mktemp("ours"), {
        **settings("SASL_PLAINTEXT"), "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "group.initial.rebalance.delay.ms": "0"})  # fmt: skip
    try:
        yield with_users(NamedServer("ours", running.bootstrap))
    finally:
        running.stop()


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NamedServer]:
    try:
        server = start_kafka(
            tmp_path_factory.mktemp("kafka"), settings=settings("SASL_PLAINTEXT"), heap="512m",
            protocol="SASL_PLAINTEXT",
        )  # fmt: skip
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka 4.4: {missing}")
    with server:
        yield with_users(NamedServer("kafka", server.address))


class Wire(FrameSocket):
    """One connection to a server, request by request; what the server answers, or that it hangs
    up."""

    def __init__(self, server: NamedServer) -> None:
        super().__init__(server.address)

    def said(self, key: int, version: int, body: object) -> str:
        """The answer in words, for a comparison."""
        try:
            return str(self.ask(key, version, body))
        except ConnectionError:
            return "closed"

    def handshake(self, mechanism: str, version: int = 1) -> str:
        """Kafka names the mechanisms in the order of a hash table."""
        try:
            answer = self.ask(ApiKey.SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism))
        except ConnectionError:
            return "closed"
        return f"{answer.error_code} {sorted(answer.mechanisms)}"

    def token(self, token: bytes, version: int = 2) -> str:
        return self.said(ApiKey.SASL_AUTHENTICATE, version, SaslAuthenticateRequest(token))

    def metadata(self) -> str:
        """Whether it is served."""
        told = self.said(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
        return "served" if told.startswith("MetadataResponse") else told

    def log_in(self, mechanism: str, user: str, password: str) -> str:
        """The answer to the last token. Nonces and the like do not appear in it."""
        self.handshake(mechanism)
        exchange = SaslLogin(mechanism, user, password).begin()
        token: bytes | None = exchange.first()
        while token is not None:
            answer = self.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(token))
            if answer.error_code:
                return str(answer)
            token = exchange.answer(answer.auth_bytes)
        return f"let in for {answer.session_lifetime_ms} ms, {answer.error_message}"


def with_users(server: NamedServer) -> NamedServer:
    """Each user of SCRAM has one mechanism's credential, or both."""
    until = time.monotonic() + DEADLINE_S
    with closing(Wire(server)) as wire:
        assert wire.log_in(PLAIN, "city", PASSWORD).startswith("let in")
        wanted = [("city", one) for one in ScramMechanism] + [("only", ScramMechanism(1))]
        for user, mechanism in wanted:
            upsertion = ScramCredentialUpsertion(
                user, mechanism, 4096, SALT, salted(mechanism, SCRAM_PASSWORD, SALT, 4096)
            )
            request = AlterUserScramCredentialsRequest(upsertions=[upsertion])
            answer = wire.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request)
            assert answer.results[0].error_code == 0, answer
    for user, mechanism in wanted:
        while True:
            with closing(Wire(server)) as wire:
                if wire.log_in(mechanism.title, user, SCRAM_PASSWORD).startswith("let in"):
                    break
            assert time.monotonic() < until, f"{user} cannot log in by {mechanism.title}"
    return server


def plain(user: str, password: str = PASSWORD, authorization: str = "") -> bytes:
    return f"{authorization}\0{user}\0{password}".encode()


def tell(*steps: Callable[[Wire], str]) -> Callable[[NamedServer], list[str]]:
    """Steps of one connection."""

    def told(server: NamedServer) -> list[str]:
        with closing(Wire(server)) as wire:
            return [step(wire) for step in steps]

    return told


def logged_in(mechanism: str, user: str = "city", password: str = "") -> Callable[[Wire], str]:
    known = password or (PASSWORD if mechanism == PLAIN else SCRAM_PASSWORD)
    return lambda wire: wire.log_in(mechanism, user, known)


STORIES: dict[str, Callable[[NamedServer], list[str]]] = {
    "nothing is served before": tell(lambda wire: wire.metadata()),
    "a mechanism that is not enabled": tell(
        lambda wire: wire.handshake("GSSAPI"), lambda wire: wire.metadata()
    ),
    "a mechanism without a name": tell(lambda wire: wire.handshake("")),
    "plain": tell(logged_in(PLAIN), lambda wire: wire.metadata()),
    "a wrong password of plain": tell(logged_in(PLAIN, "city", "x"), lambda wire: wire.metadata()),
    "an unknown user of plain": tell(logged_in(PLAIN, "nobody")),
    "another authorization id": tell(
        lambda wire: wire.handshake(PLAIN), lambda wire: wire.token(plain("city", PASSWORD, "root"))
    ),
    "no password": tell(lambda wire: wire.handshake(PLAIN), lambda wire: wire.token(b"\0city\0")),
    "no token of plain": tell(
        lambda wire: wire.handshake(PLAIN), lambda wire: wire.token(b"garbage")
    ),
    "a token of version 0": tell(
        lambda wire: wire.handshake(PLAIN), lambda wire: wire.token(plain("city"), 0)
    ),
    **{mechanism: tell(logged_in(mechanism)) for mechanism in SCRAM_BY_TITLE},
    **{f"a wrong password of {mechanism}": tell(logged_in(mechanism, "city", "x"))
       for mechanism in SCRAM_BY_TITLE},
    **{f"an unknown user of {mechanism}": tell(logged_in(mechanism, "nobody"))
       for mechanism in SCRAM_BY_TITLE},
    "the other mechanism's credential": tell(logged_in("SCRAM-SHA-512", "only")),
    "no token of scram": tell(
        lambda wire: wire.handshake("SCRAM-SHA-512"), lambda wire: wire.token(b"garbage")
    ),
    "too early a renewal": tell(
        logged_in(PLAIN), lambda wire: renewed(wire, plain("city")),
        lambda wire: wire.handshake(PLAIN), lambda wire: wire.metadata(),
    ),
    "a token after all": tell(logged_in(PLAIN), lambda wire: wire.token(plain("city"))),
    "a renewal": tell(logged_in(PLAIN), lambda wire: renewed(wire, plain("city"))),
    "a renewal as another one": tell(
        logged_in(PLAIN), lambda wire: renewed(wire, plain("other")), lambda wire: wire.metadata()
    ),
    "a renewal with a wrong password": tell(
        logged_in(PLAIN), lambda wire: renewed(wire, plain("city", "x"))
    ),
    "a renewal by another mechanism": tell(
        logged_in(PLAIN), lambda wire: renewed(wire, b"n,,n=city,r=abc", "SCRAM-SHA-512")
    ),
}  # fmt: skip


def renewed(wire: Wire, token: bytes, mechanism: str = PLAIN) -> str:
    """Kafka takes no second handshake within a second of the first renewal, so that there is one
    only; what it answers to a first one at once, it says."""
    return f"{wire.handshake(mechanism)} {wire.token(token)}"


CHANGES: dict[str, AlterUserScramCredentialsRequest] = {
    "too few": AlterUserScramCredentialsRequest(
        upsertions=[ScramCredentialUpsertion("a", 1, 4095, SALT, b"x" * 32)]
    ),
    "too many": AlterUserScramCredentialsRequest(
        upsertions=[ScramCredentialUpsertion("a", 2, 16385, SALT, b"x" * 64)]
    ),
    "nobody": AlterUserScramCredentialsRequest(
        upsertions=[ScramCredentialUpsertion("", 2, 4096, SALT, b"x" * 64)]
    ),
    "unknown mechanism": AlterUserScramCredentialsRequest(
        upsertions=[ScramCredentialUpsertion("a", 3, 4096, SALT, b"x" * 64)]
    ),
    "unknown mechanism removed": AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion("a", 0)]
    ),
    "nothing there": AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion("only", 2)]
    ),
    "twice": AlterUserScramCredentialsRequest(
        upsertions=[ScramCredentialUpsertion("a", 1, 4096, SALT, b"x" * 32)] * 2
    ),
    "removed and set": AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion("only", 1)],
        upsertions=[ScramCredentialUpsertion("only", 1, 4096, SALT, b"x" * 32)],
    ),
    "two mechanisms of one": AlterUserScramCredentialsRequest(
        upsertions=[
            ScramCredentialUpsertion("two", 1, 4096, SALT, b"x" * 32),
            ScramCredentialUpsertion("two", 2, 4096, SALT, b"x" * 64),
        ]
    ),
    "one is refused": AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion("missing", 1)],
        upsertions=[ScramCredentialUpsertion("new", 2, 8192, SALT, b"x" * 64)],
    ),
    "nothing": AlterUserScramCredentialsRequest(),
}


@pytest.mark.timeout(300)
def test_each_step_of_a_login_is_answered_as_kafka_answers_it(ours: NamedServer, kafka: NamedServer) -> None:
    said = {
        server.name: {name: story(server) for name, story in STORIES.items()}
        for server in (ours, kafka)
    }
    assert {name: told for name, told in said["ours"].items() if said["kafka"][name] != told} == {}


@pytest.mark.timeout(300)
def test_changes_of_credentials_are_answered_as_kafka_answers_them(
    ours: NamedServer, kafka: NamedServer
) -> None:
    """And described as Kafka describes them, afterwards."""
    said: dict[str, dict[str, object]] = {one: {} for one in SERVERS}
    for server in (ours, kafka):
        with closing(Wire(server)) as wire:
            wire.log_in(PLAIN, "city", PASSWORD)
            for name, request in CHANGES.items():
                answer = wire.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request)
                said[server.name][name] = sorted(
                    (one.user, one.error_code, one.error_message) for one in answer.results
                )
            for users in (None, ["city", "only", "two", "new", "missing"]):
                named = None if users is None else [UserName(one) for one in users]
                told = _described(wire, DescribeUserScramCredentialsRequest(users=named))
                said[server.name][str(users)] = told
    assert said["ours"] == said["kafka"]


def _described(wire: Wire, request: DescribeUserScramCredentialsRequest) -> object:
    """When the broker knows of the last change."""
    until = time.monotonic() + DEADLINE_S
    while True:
        answer = wire.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, request)
        if any(one.user == "new" and not one.error_code for one in answer.results):
            return sorted(
                (one.user, one.error_code, one.error_message, sorted(map(str, one.credential_infos)))
                for one in answer.results
            )
        assert time.monotonic() < until, f"no credential of new: {answer}"


class LoginAttempt(NamedTuple):
    """One login of a client."""

    mechanism: str
    user: str
    password: str


ATTEMPTS = [
    *(LoginAttempt(one, "city", PASSWORD if one == PLAIN else SCRAM_PASSWORD) for one in MECHANISMS),
    *(LoginAttempt(one, "city", "wrong") for one in MECHANISMS),
    *(LoginAttempt(one, "nobody", "wrong") for one in MECHANISMS),
    LoginAttempt("GSSAPI", "city", PASSWORD),
]
LET_IN = "let in"


def by_librdkafka(server: NamedServer, attempt: LoginAttempt, folder: Path) -> str:
    if attempt.mechanism == "GSSAPI":
        return "not asked: it wants a keytab first"
    errors: list[KafkaError] = []
    producer = Producer({
        "bootstrap.servers": server.address, "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": attempt.mechanism, "sasl.username": attempt.user,
        "sasl.password": attempt.password, "error_cb": errors.append, "logger": _silent(),
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


def _silent() -> logging.Logger:
    quiet = logging.getLogger("silent")
    quiet.disabled = True
    return quiet


def by_kafka_python(server: NamedServer, attempt: LoginAttempt, folder: Path) -> str:
    if attempt.mechanism == "GSSAPI":
        return "not asked: it wants a library first"
    try:
        producer = KafkaProducer(
            bootstrap_servers=server.address, security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=attempt.mechanism, sasl_plain_username=attempt.user,
            sasl_plain_password=attempt.password, bootstrap_timeout_ms=3000,
        )  # fmt: skip
    except PythonKafkaError as error:
        return type(error).__name__
    with closing(producer):
        return LET_IN


def by_aiokafka(server: NamedServer, attempt: LoginAttempt, folder: Path) -> str:
    if attempt.mechanism == "GSSAPI":
        return "not asked: it wants a library first"

    async def tried() -> str:
        producer = AIOKafkaProducer(
            bootstrap_servers=server.address, security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=attempt.mechanism, sasl_plain_username=attempt.user,
            sasl_plain_password=attempt.password,
        )  # fmt: skip
        try:
            await producer.start()
        except AsyncKafkaError as error:
            return type(error).__name__
        finally:
            await producer.stop()
        return LET_IN if producer.client.cluster.brokers() else "no broker is known"

    return asyncio.run(asyncio.wait_for(tried(), DEADLINE_S))


def by_kcat(server: NamedServer, attempt: LoginAttempt, folder: Path) -> str:
    keys = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": attempt.mechanism,
            "sasl.username": attempt.user, "sasl.password": attempt.password}  # fmt: skip
    file = folder / "kcat.conf"
    file.write_text("".join(f"{key}={value}\n" for key, value in keys.items()), "utf-8")
    try:
        done = subprocess.run(
            ["kcat", "-F", str(file), "-b", server.address, "-L", "-m", "5"],
            capture_output=True, text=True, timeout=DEADLINE_S, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        pytest.skip("kcat is not installed")
    if done.returncode == 0:
        return LET_IN
    said = [line for line in done.stderr.splitlines() if "authentication" in line.lower()]
    return said[0].rpartition("bootstrap: ")[2].partition(" (after")[0] if said else "refused"


def java_properties(folder: Path, attempt: LoginAttempt) -> Path:
    """A file for Kafka's own tools, with what they log in with."""
    module = "plain.Plain" if attempt.mechanism == PLAIN else "scram.Scram"
    jaas = (
        f"org.apache.kafka.common.security.{module}LoginModule required "
        f'username="{attempt.user}" password="{escaped(attempt.password)}";'
    )
    keys = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": attempt.mechanism,
            "sasl.jaas.config": jaas}  # fmt: skip
    text = "".join(f"{key}={value}\n" for key, value in keys.items())
    file = folder / "java.properties"
    file.write_text(text.replace("\\", "\\\\"), "utf-8")
    return file


def by_java(server: NamedServer, attempt: LoginAttempt, folder: Path) -> str:
    file = java_properties(folder, attempt)
    done = run_tool(
        "kafka-configs",
        ["--bootstrap-server", server.address, "--command-config", str(file), "--describe",
         "--entity-type", "users", "--entity-name", "only"],
        folder=folder,
    )  # fmt: skip
    if done.returncode == 0:
        return LET_IN + done.stdout.decode()
    said = (done.stdout + done.stderr).decode()
    reasons = [line.partition("Exception: ")[2] for line in said.splitlines() if "Exception:" in line]
    return reasons[-1] if reasons else said


CLIENTS = {
    "librdkafka": by_librdkafka, "kafka-python": by_kafka_python, "aiokafka": by_aiokafka,
    "kcat": by_kcat, "java": by_java,
}  # fmt: skip


@pytest.mark.timeout(600)
@pytest.mark.parametrize("client", drawn("clients that log in", list(CLIENTS)))
def test_a_client_gets_in_or_is_told_what_it_is_told_by_kafka(
    ours: NamedServer, kafka: NamedServer, client: str, tmp_path: Path
) -> None:
    """Right and wrong passwords, users that there are not, a mechanism that is not offered. A kcat
    with librdkafka before 2.6.1 sends its nonce of SCRAM twice, which both servers refuse."""
    attempts = ATTEMPTS
    if client == "java":  # seconds each
        attempts = [one for one in ATTEMPTS if one.mechanism != "GSSAPI"][::2]
    for attempt in attempts:
        told = [CLIENTS[client](server, attempt, tmp_path) for server in (ours, kafka)]
        assert told[0] == told[1], attempt
        if client != "kcat":
            is_known = attempt.mechanism in MECHANISMS and attempt.password != "wrong"
            assert told[0].startswith(LET_IN) is is_known, attempt
        is_right = attempt.user == "city" and attempt.password != "wrong"
        can = client != "kcat" or attempt.mechanism == PLAIN
        if is_right and can and attempt.mechanism in MECHANISMS:
            assert told[0].startswith(LET_IN), attempt


@pytest.mark.timeout(300)
def test_kafkas_own_tool_makes_a_user_who_can_log_in(ours: NamedServer, tmp_path: Path) -> None:
    """`kafka-configs` with the words of Kafka's documentation, and takes the user away again."""
    file = java_properties(tmp_path, LoginAttempt(PLAIN, "city", PASSWORD))
    named = ["--bootstrap-server", ours.address, "--command-config", str(file), "--alter",
             "--entity-type", "users", "--entity-name", "alice"]  # fmt: skip
    change = "SCRAM-SHA-512=[iterations=8192,password=alice-secret]"
    made = run_tool("kafka-configs", [*named, "--add-config", change], folder=tmp_path)
    assert made.returncode == 0, made.stderr.decode()
    with closing(Wire(ours)) as wire:
        assert wire.log_in("SCRAM-SHA-512", "alice", "alice-secret").startswith(LET_IN)
    gone = run_tool("kafka-configs", [*named, "--delete-config", "SCRAM-SHA-512"], folder=tmp_path)
    assert gone.returncode == 0, gone.stderr.decode()
    with closing(Wire(ours)) as wire:
        told = wire.log_in("SCRAM-SHA-512", "alice", "alice-secret")
        assert f"error_code={ErrorCode.SASL_AUTHENTICATION_FAILED.value}" in told

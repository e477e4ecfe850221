"""What clients that have names are told under ACLs about names, beside Apache Kafka 4.4.

The requests and sets of ACLs of `test_denied_clients`, whose clients are all the same one, from: a user
with rights of its own; the same one by a delegation token; a user about whom no ACL is; a client
without a login, under ACLs about everybody; a super user, to whom ACLs deny everything. Here what no
ACL is about is denied.

Users log in by PLAIN, tokens by SCRAM; the nodes log in as well, so that the controller knows who asks it
and who sends on what others have asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import pytest

from broker.config.keys_controller import STANDARD_AUTHORIZER, ZOOKEEPER_AUTHORIZER
from broker.handlers.listener_type import ListenerType
from bus.protocol.acls import AclBinding
from bus.protocol.apis import ApiKey
from bus.protocol.generated.create_delegation_token import CreateDelegationTokenResponse
from bus.protocol.generated.sasl_authenticate import SaslAuthenticateRequest
from bus.protocol.generated.sasl_handshake import SaslHandshakeRequest
from bus.security.sasl_server import PLAIN
from deploy.errors import Unavailable
from deploy.servers.databus import BrokerStartError, RunningBroker, start_broker
from deploy.servers.databus_cluster import PORT_TAKEN, free_port, new_cluster_id
from deploy.servers.kafka import start_kafka
from deploy.servers.zookeeper import start_zookeeper
from tests.broker.handlers.test_every_version import FrameSocket
from tests.broker.security.speakers import (
    ALLOW,
    DENY,
    Frames,
    Speaker,
    acl,
    acls_filter,
    everything,
)
from tests.broker.server.cluster_with_acls import until
from tests.conformance.denied_requests import (
    GONE,
    OPERATIONS,
    TOPIC,
    Cluster,
    cases_about,
    differences,
    requests,
)
from tests.rotation import drawn
from tests.token_clients import create, log_in_by

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

HERE = "127.0.0.1"
NODE, ROOT, ALICE, BOB, NOBODY, EVERYBODY = (
    Speaker(f"User:{name}", HERE) for name in ("node", "root", "alice", "bob", "ANONYMOUS", "*")
)
SUPER_USERS = f"{NODE.principal};{ROOT.principal}"
PROTOCOLS = {"USERS": "SASL_PLAINTEXT", "OPEN": "PLAINTEXT", "CONTROLLER": "SASL_PLAINTEXT"}
MODULE = "org.apache.kafka.common.security"
PASSWORDS = (
    f'{MODULE}.plain.PlainLoginModule required username="node" password="of-node"'
    ' user_node="of-node" user_root="of-root" user_alice="of-alice" user_bob="of-bob";'
)
SETTINGS = {
    "auto.create.topics.enable": "true",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "inter.broker.listener.name": "USERS",
    "listener.security.protocol.map": ",".join(map(":".join, PROTOCOLS.items())),
    "sasl.enabled.mechanisms": f"{PLAIN},SCRAM-SHA-256",
    "sasl.mechanism.inter.broker.protocol": PLAIN,
    "sasl.mechanism.controller.protocol": PLAIN,
    **{
        f"listener.name.{listener}.plain.sasl.jaas.config": PASSWORDS
        for listener in ("users", "controller")
    },
    **{
        f"listener.name.{listener}.scram-sha-256.sasl.jaas.config": (
            f"{MODULE}.scram.ScramLoginModule required;"
        )
        for listener in ("users", "controller")
    },
    "super.users": SUPER_USERS,
    "delegation.token.secret.key": "of tokens",
}


class UserKind(Enum):
    """Who asks."""

    USER = "a user"
    TOKEN = "the owner of a delegation token"
    STRANGER = "a user about whom no ACL is"
    ANONYMOUS = "a client without a login"
    SUPER_USER = "a super user"

    @property
    def about(self) -> Speaker:
        """Whom the ACLs name."""
        of_others = {UserKind.ANONYMOUS: EVERYBODY, UserKind.SUPER_USER: ROOT}
        return of_others.get(self, ALICE)


def _contradictions() -> Iterator[tuple[str, list[AclBinding]]]:
    """Of ACLs about a user and of those about everybody a denial counts, whosever it is."""
    for words, of_all, of_one in (("denied to all", DENY, ALLOW), ("denied to one", ALLOW, DENY)):
        for kind in OPERATIONS:
            yield f"{kind.name} {words}", [
                *everything(EVERYBODY, kind),
                acl(kind, "ALL", of_all, who=EVERYBODY),
                acl(kind, "ALL", of_one, who=ALICE),
            ]


def _cells() -> Iterator[tuple[UserKind, str, list[AclBinding]]]:
    for kind in UserKind:
        for case, acls in cases_about(kind.about):
            if kind is UserKind.STRANGER and not case.endswith(("alone", "everything is allowed")):
                continue  # the others are no different to it
            if kind is UserKind.SUPER_USER and not case.endswith((" denied", "nothing is allowed")):
                continue
            yield kind, case, acls
    for case, acls in _contradictions():
        yield UserKind.USER, case, acls
        yield UserKind.TOKEN, case, acls


CELLS = list(_cells())


class UserServer(NamedTuple):
    """One whose listeners are at these addresses."""

    users: str
    open: str
    controller: str


def by_password(who: Speaker) -> Callable[[FrameSocket], None]:
    """Logs in as this user."""
    user = who.principal.partition(":")[2]

    def log_in(wire: FrameSocket) -> None:
        assert not wire.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(PLAIN)).error_code
        token = f"\0{user}\0of-{user}".encode()
        answer = wire.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(token))
        assert not answer.error_code, answer

    return log_in


def token_of(server: UserServer, owner: Speaker) -> CreateDelegationTokenResponse:
    """One that the server knows by now."""
    with closing(FrameSocket(server.users)) as wire:
        by_password(owner)(wire)
        token = create(wire)
        assert not token.error_code, token

    def is_known() -> bool:
        with closing(FrameSocket(server.users)) as wire:
            return not log_in_by(wire, token).error_code

    until("the token is known", is_known)
    return token  # type: ignore[no-any-return]


class UserCluster:
    """A server, and all who ask it."""

    def __init__(self, server: UserServer, stack: ExitStack) -> None:
        def frames(address: str, who: Speaker, log_in: Callable[[FrameSocket], None] | None) -> Frames:
            return stack.enter_context(closing(Frames(address, who, log_in)))

        is_kraft = bool(server.controller)
        served = ListenerType.BROKER if is_kraft else ListenerType.ZOOKEEPER_BROKER
        self.cluster = Cluster(
            frames(server.users, NODE, by_password(NODE)), served,
            ListenerType.CONTROLLER if is_kraft else served, acls_filter(), SUPER_USERS,
        )  # fmt: skip
        token = token_of(server, ALICE)

        def by_token(wire: FrameSocket) -> None:
            assert not log_in_by(wire, token).error_code

        nodes_speak_at = server.controller or server.users
        self.clients: dict[UserKind, tuple[Frames, Frames | None]] = {
            UserKind.TOKEN: (frames(server.users, ALICE, by_token), None),
            UserKind.ANONYMOUS: (frames(server.open, NOBODY, None), None),
        }
        for kind, who in (
            (UserKind.USER, ALICE), (UserKind.STRANGER, BOB), (UserKind.SUPER_USER, ROOT),
        ):  # fmt: skip
            log_in = by_password(who)
            self.clients[kind] = (
                frames(server.users, who, log_in), frames(nodes_speak_at, who, log_in)
            )  # fmt: skip


def _with_ports(
    start: Callable[[dict[str, int], str], RunningBroker], names: tuple[str, ...]
) -> tuple[RunningBroker, dict[str, int]]:
    """A broker of ours whose listeners have free ports."""
    for _ in range(4):
        ports = {name: free_port() for name in names}
        try:
            return start(ports, _listeners(ports)), ports
        except BrokerStartError as error:
            if PORT_TAKEN not in str(error):
                raise
    ports = {name: free_port() for name in names}
    return start(ports, _listeners(ports)), ports


def _listeners(ports: dict[str, int]) -> str:
    return ",".join(f"{name}://{HERE}:{port}" for name, port in ports.items())


def _server(ports: dict[str, int]) -> UserServer:
    at = {name: f"{HERE}:{port}" for name, port in ports.items()}
    return UserServer(at["USERS"], at["OPEN"], at.get("CONTROLLER", ""))


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, UserCluster]]:
    """Apache Kafka, and ours under both controllers."""
    folder = tmp_path_factory.mktemp("users")
    with ExitStack() as stack:
        servers = {"kafka": _kafka(folder / "kafka", stack)}
        running, ports = _with_ports(
            lambda ports, listeners: start_broker(folder / "kraft", {
                **SETTINGS, "listeners": listeners, "authorizer.class.name": STANDARD_AUTHORIZER,
                "node.id": "1", "cluster.id": new_cluster_id(), "process.roles": "broker,controller",
                "controller.quorum.voters": f"1@{HERE}:{ports['CONTROLLER']}",
            }),
            ("USERS", "OPEN", "CONTROLLER"),
        )  # fmt: skip
        stack.callback(running.stop)
        servers["kraft"] = _server(ports)
        zookeeper = stack.enter_context(start_zookeeper(folder / "zookeeper"))
        running, ports = _with_ports(
            lambda ports, listeners: start_broker(folder / "broker", {
                **SETTINGS, "listeners": listeners, "authorizer.class.name": ZOOKEEPER_AUTHORIZER,
                "node.id": "1", "broker.id": "1", "zookeeper.connect": zookeeper.address,
            }),
            ("USERS", "OPEN"),
        )  # fmt: skip
        stack.callback(running.stop)
        servers["zookeeper"] = _server(ports)
        yield {name: UserCluster(server, stack) for name, server in servers.items()}


def _kafka(folder: Path, stack: ExitStack) -> UserServer:
    ports = {name: free_port() for name in PROTOCOLS}
    clients = {name: port for name, port in ports.items() if name != "CONTROLLER"}
    settings = {
        **SETTINGS, "authorizer.class.name": STANDARD_AUTHORIZER,
        "listeners": _listeners(ports), "advertised.listeners": _listeners(clients),
        "controller.quorum.voters": f"1@{HERE}:{ports['CONTROLLER']}",
    }  # fmt: skip
    try:
        server = start_kafka(folder, settings=settings, heap="384m", port=ports["OPEN"])
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka 4.4: {missing}")
    stack.enter_context(server)
    return _server(ports)


@pytest.mark.parametrize(
    ("kind", "case", "acls"), drawn("denied users", CELLS, 12),
    ids=lambda one: getattr(one, "name", one) if not isinstance(one, list) else "",
)  # fmt: skip
def test_a_user_is_told_what_kafka_tells_it(
    kind: UserKind, case: str, acls: list[AclBinding], clusters: dict[str, UserCluster]
) -> None:
    """Also what it is not told of."""
    number = [cell[:2] for cell in CELLS].index((kind, case))
    told = {}
    for name, one in clusters.items():
        client, node = one.clients[kind]
        one.cluster.prepare(TOPIC, GONE)
        one.cluster.set_acls(acls)
        sent = requests(one.cluster.id_of(TOPIC), f"g{number}")
        told[name] = one.cluster.answers(client, node, sent, acls)
    wrong = differences(f"{kind.value}: {case}", told)
    assert not wrong, wrong


def test_each_kind_of_user_meets_each_operation() -> None:
    """Cells have names of their own, too."""
    names = [cell[:2] for cell in CELLS]
    assert len(set(names)) == len(names)
    wanted = {f"{kind.name} {word}" for kind, words in OPERATIONS.items() for word in words}
    for kind in UserKind:
        met = {case.rpartition(" ")[0] for one, case in names if one is kind}
        assert wanted <= met, kind

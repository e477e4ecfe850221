"""Both brokers with the same key, certificate, users and listeners: plain, with TLS, with logins.

In: a folder. Out: a running `SecurityTarget`. Never: another key or another suite for one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bus.client.admin.cluster_admin import ClusterAdmin
from bus.client.admin.scram_users import ScramLogin, set_scram_users
from bus.security.sasl_server import SCRAM_BY_TITLE
from bus.settings import BusSettings
from deploy.bench.security.new_connections import MECHANISM, PASSWORD, USER
from deploy.bench.targets import KAFKA, OURS, Target, role, wait_for_port
from deploy.secure.authority import new_authority, new_leaf
from deploy.servers.kafka import start_kafka
from deploy.servers.process import free_port

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
HOST = "127.0.0.1"


@dataclass(frozen=True)
class SecurityTarget:
    """A broker under measurement."""

    target: Target
    ports: Mapping[str, int]
    authority: Path
    """The certificate that clients trust."""

    @property
    def name(self) -> str:
        """Of the broker."""
        return self.target.name

    def bootstrap(self, protocol: str) -> str:
        """The listener of a protocol, as `host:port`."""
        return f"{HOST}:{self.ports[protocol]}"


Start = Callable[[Path], AbstractContextManager[SecurityTarget]]


@contextmanager
def our_broker(folder: Path) -> Iterator[SecurityTarget]:
    """The broker of this repository, as `databus run broker` starts it."""
    ports, authority, keys = _prepared(folder)
    metrics = free_port()
    keys = {**keys, "metrics.port": str(metrics)}
    flags = [f"broker.{key}={value}" for key, value in keys.items()]
    with role("broker", folder, flags) as process:
        for port in ports.values():
            wait_for_port(process, port, folder)
        bootstrap = f"{HOST}:{ports['PLAINTEXT']}"
        yield SecurityTarget(Target(OURS, bootstrap, process.pid), ports, authority)


@contextmanager
def apache_kafka(folder: Path) -> Iterator[SecurityTarget]:
    """Apache Kafka with a heap of 1 GB, as its own start script gives it."""
    ports, authority, keys = _prepared(folder)
    controller = free_port()
    jaas = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    protocols = (f"{protocol}:{protocol}" for protocol in PROTOCOLS)
    more = {
        "controller.quorum.voters": f"1@{HOST}:{controller}",
        "listeners": f"{keys['listeners']},CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": keys["listeners"],
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": ",".join([*protocols, "CONTROLLER:PLAINTEXT"]),
        **{
            f"listener.name.{protocol}.{MECHANISM.lower()}.sasl.jaas.config": jaas
            for protocol in ("sasl_plaintext", "sasl_ssl")
        },
    }
    with start_kafka(folder, settings={**keys, **more}, port=ports["PLAINTEXT"]) as server:
        yield SecurityTarget(Target(KAFKA, server.address, server.process.pid), ports, authority)


def _prepared(folder: Path) -> tuple[dict[str, int], Path, dict[str, str]]:
    """Ports, the authority, and Kafka's keys that both brokers have."""
    folder.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC)
    issuer = new_authority("bench", now)
    leaf = new_leaf(issuer, "broker", [HOST], now)
    authority, store = folder / "authority.pem", folder / "broker.pem"
    authority.write_bytes(issuer.certificate_pem)
    store.write_bytes(leaf.key_pem() + leaf.certificate_pem)
    ports = {protocol: free_port() for protocol in PROTOCOLS}
    listeners = ",".join(f"{protocol}://{HOST}:{port}" for protocol, port in ports.items())
    return ports, authority, {
        "listeners": listeners,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.enabled.protocols": "TLSv1.3",
        "sasl.enabled.mechanisms": MECHANISM,
    }  # fmt: skip


def add_user(target: SecurityTarget) -> None:
    """Let new connections log in. Raises BusError."""
    bus = BusSettings(bootstrap_servers=target.bootstrap("PLAINTEXT"))
    with closing(ClusterAdmin(bus, "bench")) as admin:
        set_scram_users(admin.client, [ScramLogin(USER, SCRAM_BY_TITLE[MECHANISM], PASSWORD)])

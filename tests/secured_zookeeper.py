"""A real ZooKeeper 3.8 that asks for a login (DIGEST-MD5) on one port and for certificates on
another, and how brokers reach it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from deploy.errors import Unavailable
from deploy.servers.process import JavaServer, free_port
from deploy.servers.zookeeper import start_zookeeper
from deploy.setup.server_jars import kafka_on_zookeeper_jars
from tests.certificates import Authority

USER, PASSWORD = "kafka", "it's the brokers', = and ;"
DIGEST_MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
LOGIN_FILE = "java.security.auth.login.config"
TREE = ("zookeeper",)
"""What every ensemble has of its own."""

Acls = dict[str, frozenset[tuple[int, str, str]]]
"""By path: permissions, scheme, id."""


@dataclass(frozen=True)
class SecuredZooKeeper:
    """One server; `folder` has its files and those of its clients."""

    server: JavaServer
    tls_port: int
    authority: Authority
    folder: Path

    @property
    def login_address(self) -> str:
        """Where it asks for a login."""
        return self.server.address

    @property
    def tls_address(self) -> str:
        """Where it asks for a certificate."""
        return f"127.0.0.1:{self.tls_port}"

    def login_file(self, password: str = PASSWORD, section: str = "Client") -> Path:
        """In the syntax of JAAS, as Java's client reads it."""
        path = self.folder / f"{section}-{abs(hash(password))}.jaas"
        path.write_text(
            f'{section} {{ {DIGEST_MODULE} required username="{USER}" password="{password}"; }};\n'
        )
        return path

    def with_certificate(self, name: str, **more: str) -> dict[str, str]:
        """Kafka's keys of a broker that shows a certificate of this name."""
        return self.keys(self.authority.signed(name).store(self.folder, name), **more)

    def keys(self, store: Path, **more: str) -> dict[str, str]:
        """The same with any store; `more` with _ for dots below `zookeeper.ssl.`."""
        return {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            "zookeeper.ssl.keystore.location": str(store),
            "zookeeper.ssl.truststore.location": str(self.authority.file(self.folder)),
            **{f"zookeeper.ssl.{key.replace('_', '.')}": value for key, value in more.items()},
        }

    @contextmanager
    def tool(self, root: str = "") -> Iterator[KazooClient]:
        """A client with the brokers' login."""
        client = KazooClient(
            hosts=f"{self.login_address}{root}",
            sasl_options={"mechanism": "DIGEST-MD5", "username": USER, "password": PASSWORD},
        )
        client.start()
        try:
            yield client
        finally:
            client.stop()
            client.close()

    def acls(self, root: str) -> Acls:
        """Of every node below a chroot, as the brokers see them."""
        with self.tool(root) as client:
            found: Acls = {}
            waiting = ["/"]
            while waiting:
                path = waiting.pop()
                entries, _ = client.get_acls(path)
                found[path] = frozenset((one.perms, one.id.scheme, one.id.id) for one in entries)
                waiting += [f"{path.rstrip('/')}/{name}" for name in client.get_children(path)]
            return found


SUITES = ",".join(
    ("TLS_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
)
"""By default 3.8 has none of TLS 1.3."""


@contextmanager
def secured_zookeeper(folder: Path) -> Iterator[SecuredZooKeeper]:
    """Skips where the jars cannot be had."""
    folder.mkdir(parents=True, exist_ok=True)
    authority, tls_port = Authority(), free_port()
    jaas = folder / "server.jaas"
    password = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    jaas.write_text(f'Server {{ {DIGEST_MODULE} required user_{USER}="{password}"; }};\n')
    settings: Mapping[str, str] = {
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        "secureClientPort": str(tls_port),
        "secureClientPortAddress": "127.0.0.1",
        "ssl.keyStore.location": str(authority.signed("server").store(folder, "server")),
        "ssl.trustStore.location": str(authority.file(folder)),
        "ssl.clientAuth": "need",
        "ssl.enabledProtocols": "TLSv1.2,TLSv1.3",
        "ssl.ciphersuites": SUITES,
    }
    try:
        server = start_zookeeper(
            folder / "zookeeper", settings=settings, options=(f"-D{LOGIN_FILE}={jaas}",),
            jars=kafka_on_zookeeper_jars(),
        )  # fmt: skip
    except Unavailable as missing:
        pytest.skip(f"ZooKeeper 3.8: {missing}")
    with server:
        yield SecuredZooKeeper(server, tls_port, authority, folder)


def chroot_of(folder: Path) -> str:
    """Of one test and run."""
    return f"/{folder.name}-{os.getpid()}"

"""A ZooKeeper server of a cluster on one machine: the jars are those that pyspark brings.

    python -m deploy.cluster.zookeeper FOLDER
In: a folder with a `zoo.cfg`; on a secured site its only port is one of TLS, which asks for a
certificate of the site's authority. Out: this process becomes the server. Never: a product's own
ensemble: who has several machines has an ensemble of their own and names it (`--zookeeper`).
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from deploy.cluster.layout import HOST, ZooKeeperNode
from deploy.errors import OperatorError
from deploy.secure.conversion_file import is_converting
from deploy.secure.layout import AUTHORITY_CERTIFICATE, ENSEMBLE_SERVER
from deploy.servers.process import class_path
from deploy.servers.zookeeper import ENSEMBLE_MAIN, MAIN, OPTIONS
from deploy.setup.java import ensure_java
from deploy.setup.server_jars import zookeeper_jars
from deploy.supervisor.process_end import end_with_the_supervisor

NETTY = "org.apache.zookeeper.server.NettyServerCnxnFactory"
TICK_MS = 1000  # sessions live between 2 and 20 ticks


@dataclass(frozen=True, slots=True)
class EnsembleStores:
    """Files of PEM: the server's key and certificate, and the authority of whoever it lets in."""

    own: Path
    authority: Path


def ensemble_stores(folder: Path | None) -> EnsembleStores | None:
    """Those of a secured site's folder; None where the site is open, or was when its servers were
    started. Raises OperatorError where there are none."""
    if folder is None or is_converting(folder):
        return None
    stores = EnsembleStores(folder / ENSEMBLE_SERVER, folder / AUTHORITY_CERTIFICATE)
    if not stores.own.is_file():
        raise OperatorError(
            f"{stores.own} is not there: {folder} has no certificate for ZooKeeper; make a folder"
            " in another place: ./databus --set security.folder=… secure init"
        )
    return stores


def write_config(node: ZooKeeperNode, stores: EnsembleStores | None = None) -> Path:
    """`zoo.cfg` and `myid` of one server."""
    data = node.folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    (data / "myid").write_text(f"{node.server_id}\n", encoding="ascii")
    lines = {
        "tickTime": TICK_MS,
        "initLimit": 20,
        "syncLimit": 10,
        "dataDir": data,
        "maxClientCnxns": 0,
        "autopurge.purgeInterval": 1,
        **(_plain(node) if stores is None else _secured(node, stores)),
        **node.servers,
    }
    path = node.folder / "zoo.cfg"
    path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()), encoding="utf-8")
    return path


def _plain(node: ZooKeeperNode) -> dict[str, object]:
    return {"clientPort": node.port, "clientPortAddress": HOST}


def _secured(node: ZooKeeperNode, stores: EnsembleStores) -> dict[str, object]:
    """No plain port. Servers ask each other for certificates, too."""
    found: dict[str, object] = {
        "secureClientPort": node.port,
        "secureClientPortAddress": HOST,
        "serverCnxnFactory": NETTY,
        "ssl.clientAuth": "need",
        "client.certReload": "true",
    }
    for prefix in ("ssl.", "ssl.quorum."):
        found |= {
            f"{prefix}keyStore.location": stores.own,
            f"{prefix}trustStore.location": stores.authority,
            f"{prefix}enabledProtocols": "TLSv1.2,TLSv1.3",
        }
    if node.servers:
        found |= {"sslQuorum": "true", "sslQuorumReloadCertFiles": "true"}
    return found


def command_of(folder: Path, *, ensemble: bool) -> list[str]:
    """The words that start the server."""
    main = ENSEMBLE_MAIN if ensemble else MAIN
    jars = class_path(zookeeper_jars())
    return [str(ensure_java()), *OPTIONS, "-cp", jars, main, str(folder / "zoo.cfg")]


def main(words: list[str]) -> None:
    """Become the server; ends with the supervisor that started it."""
    folder = Path(words[0])
    end_with_the_supervisor()
    ensemble = "server.1=" in (folder / "zoo.cfg").read_text(encoding="utf-8")
    command = command_of(folder, ensemble=ensemble)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])

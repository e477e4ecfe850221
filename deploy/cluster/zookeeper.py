"""A ZooKeeper server of a cluster on one machine: the jars are those that pyspark brings.

    python -m deploy.cluster.zookeeper FOLDER
In: a folder with a `zoo.cfg`. Out: this process becomes the server. Never: a product's own
ensemble: who has several machines has an ensemble of their own and names it (`--zookeeper`).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from deploy.cluster.layout import HOST, ZooKeeperNode
from deploy.servers.process import class_path
from deploy.servers.zookeeper import MAIN, OPTIONS
from deploy.setup.java import ensure_java
from deploy.setup.server_jars import zookeeper_jars
from deploy.supervisor.process_end import end_with_the_supervisor

ENSEMBLE_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
TICK_MS = 1000  # sessions live between 2 and 20 ticks


def write_config(node: ZooKeeperNode) -> Path:
    """`zoo.cfg` and `myid` of one server."""
    data = node.folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    (data / "myid").write_text(f"{node.server_id}\n", encoding="ascii")
    lines = {
        "tickTime": TICK_MS,
        "initLimit": 20,
        "syncLimit": 10,
        "dataDir": data,
        "clientPort": node.port,
        "clientPortAddress": HOST,
        "maxClientCnxns": 0,
        "autopurge.purgeInterval": 1,
        **node.servers,
    }
    path = node.folder / "zoo.cfg"
    path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()), encoding="utf-8")
    return path


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

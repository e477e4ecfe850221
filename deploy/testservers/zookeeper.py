"""A real ZooKeeper out of the jars that the pyspark package brings along.

In: a folder of its own. Out: a running server on a free port. Never: used by the product itself.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from deploy.errors import Unavailable
from deploy.testservers.process import JavaServer, accepts, free_port, launch

MAIN = "org.apache.zookeeper.server.ZooKeeperServerMain"
# With only these it is up in a second and needs half the memory of all 280 jars.
NEEDED = (
    "zookeeper",
    "slf4j",
    "jul-to-slf4j",
    "log4j",
    "netty",
    "metrics-core",
    "snappy-java",
    "commons-io",
)
OPTIONS = (
    "-Xms32m",
    "-Xmx128m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dzookeeper.admin.enableServer=false",
    "-Dzookeeper.jmx.log4j.disable=true",
    "-Dzookeeper.4lw.commands.whitelist=ruok,stat,srvr,mntr",
)


def zookeeper_jars() -> list[Path]:
    """ZooKeeper's jars inside the installed pyspark; `Unavailable` without it."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise Unavailable("ZooKeeper: the pyspark package that carries its jars is not installed")
    folder = Path(found.origin).parent / "jars"
    jars = [jar for jar in sorted(folder.glob("*.jar")) if jar.name.startswith(NEEDED)]
    if not any(jar.name.startswith("zookeeper-3") for jar in jars):
        raise Unavailable(f"ZooKeeper: {folder} holds no zookeeper-3*.jar")
    return jars


def start_zookeeper(folder: Path) -> JavaServer:
    """A standalone ZooKeeper that answers on `server.address`."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    config = folder / "zoo.cfg"
    config.write_text(
        f"tickTime=1000\ndataDir={folder / 'data'}\nclientPort={port}\n"
        "clientPortAddress=127.0.0.1\nmaxClientCnxns=0\n",
        encoding="utf-8",
    )
    server = launch(
        "ZooKeeper", folder, port, zookeeper_jars(), [MAIN, str(config)], options=OPTIONS
    )
    return server.wait_until(lambda: accepts(port))

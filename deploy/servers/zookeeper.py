"""A real ZooKeeper out of the jars that the pyspark package brings along.

In: a folder of its own. Out: a running server on a free port. Never: a city's ensemble.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from deploy.servers.process import JavaServer, accepts, free_port, launch
from deploy.setup.server_jars import zookeeper_jars

MAIN = "org.apache.zookeeper.server.ZooKeeperServerMain"
ENSEMBLE_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
OPTIONS = (
    "-Xms32m",
    "-Xmx128m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dzookeeper.admin.enableServer=false",
    "-Dzookeeper.jmx.log4j.disable=true",
    "-Dzookeeper.4lw.commands.whitelist=ruok,stat,srvr,mntr",
)


def start_zookeeper(
    folder: Path,
    *,
    host: str = "127.0.0.1",
    settings: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
    jars: Sequence[Path] | None = None,
) -> JavaServer:
    """A standalone ZooKeeper that answers on `server.port` of an address of this machine.

    `settings` are more lines of `zoo.cfg`, `options` are Java's; `jars` are of another ZooKeeper
    than pyspark's.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    config = folder / "zoo.cfg"
    lines = {
        "tickTime": "1000",
        "dataDir": str(folder / "data"),
        "clientPort": str(port),
        "clientPortAddress": host,
        "maxClientCnxns": "0",
        **(settings or {}),
    }
    config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()), "utf-8")
    server = launch(
        "ZooKeeper", folder, port, jars or zookeeper_jars(), [MAIN, str(config)],
        options=(*OPTIONS, *options),
    )  # fmt: skip
    return server.wait_until(lambda: accepts(port, host))


def start_ensemble(folder: Path, size: int = 3) -> ZookeeperEnsemble:
    """An ensemble whose members are all up; its quorum forms within a second or two."""
    ports = [(free_port(), free_port(), free_port()) for _ in range(size)]
    members = "".join(
        f"server.{number}=127.0.0.1:{peer}:{election};127.0.0.1:{client}\n"
        for number, (client, peer, election) in enumerate(ports, start=1)
    )
    configs = [
        _ensemble_config(folder / str(number), number, members) for number in range(1, size + 1)
    ]
    ensemble = ZookeeperEnsemble(configs, [client for client, _, _ in ports])
    try:
        for number in range(size):
            ensemble.launch(number)
        for server in ensemble.servers:
            if server is not None:
                server.wait_until(partial(accepts, server.port))
    except BaseException:
        ensemble.stop()
        raise
    return ensemble


def _ensemble_config(folder: Path, number: int, members: str) -> Path:
    (folder / "data").mkdir(parents=True, exist_ok=True)
    (folder / "data" / "myid").write_text(f"{number}\n", encoding="utf-8")
    config = folder / "zoo.cfg"
    config.write_text(
        f"tickTime=500\ninitLimit=20\nsyncLimit=10\ndataDir={folder / 'data'}\n"
        f"maxClientCnxns=0\n{members}",
        encoding="utf-8",
    )
    return config


class ZookeeperEnsemble:
    """Several ZooKeeper servers; any one may be stopped and started again.

    Invariant: `servers` holds a process this object started, or None, at each member's place.
    """

    def __init__(self, configs: list[Path], ports: list[int]) -> None:
        self.configs = configs
        self.ports = ports
        self.servers: list[JavaServer | None] = [None] * len(configs)

    @property
    def address(self) -> str:
        """All members, as `zookeeper.connect` wants them."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def launch(self, index: int) -> JavaServer:
        """Start one member; it may not serve yet."""
        config = self.configs[index]
        server = launch(
            f"ZooKeeper {index + 1}", config.parent, self.ports[index], zookeeper_jars(),
            [ENSEMBLE_MAIN, str(config)], options=OPTIONS,
        )  # fmt: skip
        self.servers[index] = server
        return server

    def stop_member(self, index: int) -> None:
        """Stop one member."""
        server, self.servers[index] = self.servers[index], None
        if server is not None:
            server.stop()

    def stop(self) -> None:
        """Stop all members."""
        for index in range(len(self.servers)):
            self.stop_member(index)

    def __enter__(self) -> ZookeeperEnsemble:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

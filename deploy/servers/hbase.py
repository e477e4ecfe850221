"""A real HBase with its Thrift server, on free ports and a local folder.

In: a folder of its own. Out: two Java processes (the master, which is also the region server and
runs a ZooKeeper; the Thrift server), each of which may be killed and started again. Never: used by
the product itself, nor for data that matters: on a local folder HBase does not force its log to the
device.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import happybase

from deploy.errors import Unavailable
from deploy.servers.process import JavaServer, accepts, free_port, launch
from deploy.setup.server_jars import hbase_jars

MASTER = "org.apache.hadoop.hbase.master.HMaster"
THRIFT = "org.apache.hadoop.hbase.thrift.ThriftServer"
READY_TIMEOUT_S = 120  # fifteen seconds on an idle machine
PROBE_TIMEOUT_MS = 5_000
PROBE_TABLE = "is_ready"
POLL_S = 0.3

# Java 17 hides from reflection what Hadoop looks at.
_OPENED = (
    "java.lang", "java.lang.reflect", "java.io", "java.nio", "sun.nio.ch", "java.util",
    "java.util.concurrent", "java.net",
)  # fmt: skip
OPTIONS = (
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
    "--add-exports=java.base/jdk.internal.misc=ALL-UNNAMED",
    "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Djava.net.preferIPv4Stack=true",
    "-XX:+UseSerialGC",
)

LOG4J = """log4j.rootLogger=INFO,out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p [%t] %c{1}: %m%n
"""


class Hbase:
    """The two processes. Invariant: each was started by this object, or is None."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._jars = hbase_jars()
        self.master: JavaServer | None = None
        self.thrift: JavaServer | None = None
        for name in ("conf", "master", "thrift"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "conf" / "hbase-site.xml").write_text(self._site(), encoding="utf-8")
        (folder / "conf" / "log4j.properties").write_text(LOG4J, encoding="utf-8")

    @property
    def address(self) -> str:
        """Where the Thrift server listens."""
        return f"127.0.0.1:{self.port}"

    def start_master(self) -> None:
        """Begin; it may not serve yet."""
        self.master = self._launch("master", MASTER, "1g")

    def start_thrift(self) -> None:
        """Begin; it may not serve yet."""
        self.thrift = self._launch("thrift", THRIFT, "384m")

    def kill_master(self) -> None:
        """kill -9, in the middle of its work."""
        _kill(self.master)

    def kill_thrift(self) -> None:
        """The same for the Thrift server."""
        _kill(self.thrift)

    def wait_until_ready(self) -> Hbase:
        """Until a table can be written to: it listens and names its tables long before."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not self._takes_a_row():
            for server in (self.master, self.thrift):
                if server is None or server.process.poll() is not None:
                    raise Unavailable(f"HBase ended: {'' if server is None else server.log[-800:]}")
            if time.monotonic() > deadline:
                raise Unavailable(f"HBase is not ready after {READY_TIMEOUT_S} s")
            time.sleep(POLL_S)
        return self

    def stop(self) -> None:
        """The Thrift server first: the master then waits for no client."""
        for server in (self.thrift, self.master):
            if server is not None:
                server.stop()
        self.thrift = self.master = None

    def __enter__(self) -> Hbase:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _launch(self, name: str, main: str, heap: str) -> JavaServer:
        return launch(
            f"HBase ({name})", self.folder / name, self.port,
            [self.folder / "conf", *self._jars], [main, "start"],
            options=[f"-Xmx{heap}", *OPTIONS],
        )  # fmt: skip

    def _takes_a_row(self) -> bool:
        if not accepts(self.port):
            return False
        with suppress(Exception):  # it may fail in any way while it starts
            connection = happybase.Connection(
                "127.0.0.1", self.port, timeout=PROBE_TIMEOUT_MS
            )
            try:
                if PROBE_TABLE.encode() not in connection.tables():
                    connection.create_table(PROBE_TABLE, {"d": {}})
                connection.table(PROBE_TABLE).put(b"row", {b"d:x": b"1"})
            finally:
                connection.close()
            return True
        return False

    def _site(self) -> str:
        data = self.folder / "data"
        zookeeper, master, regions = free_port(), free_port(), free_port()
        own = {
            "hbase.rootdir": f"file://{data / 'hbase'}",
            "hbase.tmp.dir": data / "tmp",
            "hbase.cluster.distributed": "false",
            "hbase.zookeeper.property.clientPort": zookeeper,
            "hbase.zookeeper.property.clientPortAddress": "127.0.0.1",
            "hbase.zookeeper.property.dataDir": data / "zookeeper",
            "hbase.master.port": master,
            "hbase.regionserver.port": regions,
            "hbase.regionserver.thrift.ipaddress": "127.0.0.1",
            "hbase.regionserver.thrift.port": self.port,
        }
        return site_xml(own)


def site_xml(own: Mapping[str, object]) -> str:
    """`hbase-site.xml` of a server on the loopback, with what is its own."""
    values = {
        "hbase.unsafe.stream.capability.enforce": "false",
        "hbase.wal.provider": "filesystem",
        "hbase.zookeeper.quorum": "127.0.0.1",
        "hbase.master.hostname": "localhost",
        "hbase.regionserver.hostname": "localhost",
        "hbase.master.ipc.address": "127.0.0.1",
        "hbase.regionserver.ipc.address": "127.0.0.1",
        "hbase.master.info.port": "-1",
        "hbase.regionserver.info.port": "-1",
        "hbase.thrift.info.port": "-1",
        "hbase.regionserver.handler.count": "10",
        "hbase.regionserver.msginterval": "500",
        # Else a stop waits for the ZooKeeper that has gone with the master.
        "zookeeper.recovery.retry": "1",
        "zookeeper.recovery.retry.intervalmill": "200",
        "zookeeper.recovery.retry.maxsleeptime": "1000",
        **own,
    }
    lines = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>\n"
        for name, value in values.items()
    )
    return f'<?xml version="1.0"?>\n<configuration>\n{lines}</configuration>\n'


def start_hbase(folder: Path) -> Hbase:
    """Both processes, ready to be written to."""
    hbase = Hbase(folder)
    try:
        hbase.start_master()
        hbase.start_thrift()
        return hbase.wait_until_ready()
    except BaseException:
        hbase.stop()
        raise


def _kill(server: JavaServer | None) -> None:
    if server is not None:
        server.process.kill()
        server.process.wait()

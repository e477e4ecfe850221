"""A distributed HBase on a local folder: a master, region servers and Thrift servers, each its own
process.

    python -m deploy.distributed.hbase FOLDER MAIN
In: a folder with HBase's settings. Out: this process becomes one of HBase's; `Child` values. Never:
data that matter: on a local folder HBase does not force its log to the device.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from deploy.cluster.layout import HOST, ZooKeeperNode
from deploy.cluster.processes import zookeeper_process
from deploy.distributed.layout import THRIFT_SERVERS, HbasePlan
from deploy.roles.table import environment
from deploy.servers.hbase import LOG4J, MASTER, OPTIONS, THRIFT, site_xml
from deploy.servers.process import class_path
from deploy.setup.java import ensure_java
from deploy.setup.server_jars import hbase_jars
from deploy.supervisor.child import Child, ServiceEndpoint
from deploy.supervisor.process_end import end_with_the_supervisor

REGION_SERVER = "org.apache.hadoop.hbase.regionserver.HRegionServer"
ZOOKEEPER, THRIFT_NAME = "hbase-zookeeper", "hbase-thrift-"
HEAPS = {MASTER: "512m", REGION_SERVER: "768m", THRIFT: "256m"}
COMPILER = "-XX:TieredStopAtLevel=1"
"""Ten JVMs and their second compilers share the cores of one machine: the first compiler alone
left ingest a tenth more of them in a backlog (4,890 to 5,344 records/s, two cores)."""
SESSION_MS = 10_000  # after which a silent region server's regions go to another one
STOP_TIMEOUT_S = 20.0
PORT_OPTION = "--hbase-port"


def hbase_processes(plan: HbasePlan) -> list[Child]:
    """ZooKeeper, master, region servers, Thrift servers."""
    zookeeper = ZooKeeperNode(1, plan.zookeeper_port, plan.home / "zookeeper", {})
    region_servers = [
        _process(plan, f"hbase-region-{number + 1}", REGION_SERVER, plan.region_server_port(number),
                 needs=("hbase-master",))
        for number in range(plan.region_servers)
    ]  # fmt: skip
    thrift_servers = [
        _process(plan, f"{THRIFT_NAME}{number + 1}", THRIFT, plan.thrift_port(number),
                 needs=tuple(child.name for child in region_servers))
        for number in range(THRIFT_SERVERS)
    ]  # fmt: skip
    return [
        zookeeper_process(zookeeper, ZOOKEEPER, PORT_OPTION),
        _process(plan, "hbase-master", MASTER, plan.master_port, needs=(ZOOKEEPER,)),
        *region_servers,
        *thrift_servers,
    ]


def _process(
    plan: HbasePlan, name: str, main_class: str, port: int, needs: tuple[str, ...]
) -> Child:
    folder = plan.home / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hbase-site.xml").write_text(site_xml(_site(plan, main_class, port)), "utf-8")
    (folder / "log4j.properties").write_text(LOG4J, encoding="utf-8")
    return Child(
        name=name,
        command=(sys.executable, "-m", "deploy.distributed.hbase", str(folder), main_class),
        environment=environment(),
        needs=needs,
        endpoint=ServiceEndpoint(HOST, port, PORT_OPTION),
        stop_timeout_s=STOP_TIMEOUT_S,
    )


def _site(plan: HbasePlan, main_class: str, port: int) -> Mapping[str, object]:
    own: dict[str, dict[str, object]] = {
        MASTER: {"hbase.master.port": port},
        REGION_SERVER: {"hbase.regionserver.port": port},
        THRIFT: {
            "hbase.regionserver.thrift.ipaddress": HOST,
            "hbase.regionserver.thrift.port": port,
        },
    }
    return {
        "hbase.rootdir": f"file://{plan.home / 'data'}",
        "hbase.tmp.dir": plan.home / "tmp",
        "hbase.cluster.distributed": "true",
        "hbase.zookeeper.property.clientPort": plan.zookeeper_port,
        "zookeeper.session.timeout": SESSION_MS,
        "hbase.master.port": plan.master_port,
        **own[main_class],
    }


def main(words: list[str]) -> None:
    """Become the process; ends with the supervisor that started it."""
    folder, main_class = words
    end_with_the_supervisor()
    jars = class_path([Path(folder), *hbase_jars()])
    heap = f"-Xmx{HEAPS[main_class]}"
    command = [str(ensure_java()), heap, COMPILER, *OPTIONS, "-cp", jars, main_class, "start"]
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])

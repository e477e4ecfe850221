"""Apache Kafka 3.9 from Maven Central: a broker on a ZooKeeper, and its tool for znodes' ACLs.

In: a folder of its own, the ensemble, broker settings. Out: a running broker. Never: used by the
product itself; only tests compare with it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from deploy.servers.process import JavaServer, accepts, class_path, free_port, launch
from deploy.setup.java import ensure_java
from deploy.setup.server_jars import kafka_on_zookeeper_jars

TOOL_TIMEOUT_S = 60
LOG_OPTIONS = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
    "-Dorg.slf4j.simpleLogger.logFile=System.out",
)
SECURITY_MIGRATION = "kafka.admin.ZkSecurityMigrator"
"""What zookeeper-security-migration runs."""


def start_kafka_on_zookeeper(
    folder: Path, connect: str, *, settings: Mapping[str, str], options: Sequence[str] = ()
) -> JavaServer:
    """One broker, whose `broker.id` is 1 unless `settings` have another; `options` are Java's."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    lines = {
        "broker.id": "1",
        "zookeeper.connect": connect,
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": str(folder / "data"),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        **settings,
    }
    properties = folder / "server.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in lines.items()), "utf-8")
    server = launch(
        "Apache Kafka 3.9", folder, port, kafka_on_zookeeper_jars(),
        ["kafka.Kafka", str(properties)],
        options=("-Xmx512m", "-XX:TieredStopAtLevel=1", *LOG_OPTIONS, *options),
    )  # fmt: skip
    return server.wait_until(lambda: _serves(server))


def _serves(server: JavaServer) -> bool:
    return "] started" in server.log and accepts(server.port)


def run_security_migration(
    arguments: Sequence[str], options: Sequence[str] = ()
) -> subprocess.CompletedProcess[bytes]:
    """Kafka's zookeeper-security-migration; `options` are Java's."""
    command = [
        str(ensure_java()), "-Xmx256m", "-XX:TieredStopAtLevel=1", *LOG_OPTIONS, *options,
        "-cp", class_path(kafka_on_zookeeper_jars()), SECURITY_MIGRATION, *arguments,
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, timeout=TOOL_TIMEOUT_S, check=False)

"""Apache Kafka 4.4 from Maven Central: one KRaft node on free ports, and its command-line tools.

In: a folder of its own, broker settings. Out: a running broker; jars for Kafka's own tools.
Never: used by the product itself; only tests and benches compare with it.
"""

from __future__ import annotations

import base64
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from deploy.errors import Unavailable
from deploy.servers.process import JavaServer, accepts, class_path, free_port, launch
from deploy.setup.java import ensure_java
from deploy.setup.server_jars import kafka_jars, metadata_shell_jars

SHELL = "kafka-metadata-shell"
FORMAT_TIMEOUT_S = 60
TOOL_TIMEOUT_S = 60

TOOLS = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-configs": "org.apache.kafka.tools.ConfigCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    SHELL: "org.apache.kafka.shell.MetadataShell",
}

_LOG4J = """status = error
rootLogger.level = {level}
rootLogger.appenderRef.stdout.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.target = {target}
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
"""


def start_kafka(
    folder: Path,
    *,
    settings: Mapping[str, str] | None = None,
    heap: str = "1g",
    protocol: str = "PLAINTEXT",
    scram: Sequence[str] = (),
    port: int | None = None,
    options: Sequence[str] = (),
) -> JavaServer:
    """A formatted single-node broker that answers on `server.address`.

    `protocol` is that of the listener for clients; what it needs (certificates, logins) is in
    `settings`, which may name listeners of their own; `port` is then that of one of them.
    `scram` are users as `kafka-storage format --add-scram` takes them, `options` are Java's.
    """
    folder.mkdir(parents=True, exist_ok=True)
    jars, port = kafka_jars(), port or free_port()
    properties = folder / "server.properties"
    properties.write_text(_properties(folder, port, protocol, settings or {}), "utf-8")
    format_storage(properties, jars, new_cluster_id(), scram)
    server = launch_broker(folder, port, heap, options)
    return server.wait_until(lambda: started(server))


def launch_broker(
    folder: Path, port: int, heap: str, options: Sequence[str] = ()
) -> JavaServer:
    """One node whose formatted storage and `server.properties` lie in the folder; not awaited."""
    log4j = _log4j(folder, "info", "SYSTEM_OUT")
    return launch(
        "Apache Kafka 4.4",
        folder,
        port,
        kafka_jars(),
        ["kafka.Kafka", str(folder / "server.properties")],
        options=[
            f"-Xmx{heap}",
            f"-Xms{heap}",
            "-XX:+UseG1GC",
            f"-Dlog4j2.configurationFile=file:{log4j}",
            *options,
        ],
    )


def started(server: JavaServer) -> bool:
    """Whether a node serves."""
    return "Kafka Server started" in server.log and accepts(server.port)


def new_cluster_id() -> str:
    """A cluster's id as Kafka writes them."""
    text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()
    return text.rstrip("=").replace("-", "A")


def run_tool(
    tool: str,
    arguments: Sequence[str],
    *,
    folder: Path,
    stdin: bytes = b"",
    timeout_s: float = TOOL_TIMEOUT_S,
    options: Sequence[str] = (),
) -> subprocess.CompletedProcess[bytes]:
    """Run one of Kafka's own tools (`kafka-topics`, …) and return what it said. `options` are
    Java's."""
    command = [
        str(ensure_java()),
        "-Xmx256m",
        "-XX:TieredStopAtLevel=1",
        *options,
        f"-Dlog4j2.configurationFile=file:{_log4j(folder, 'warn', 'SYSTEM_ERR')}",
        "-cp",
        class_path(metadata_shell_jars() if tool == SHELL else kafka_jars()),
        TOOLS[tool],
        *arguments,
    ]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=timeout_s, check=False)


def _log4j(folder: Path, level: str, target: str) -> Path:
    path = folder / f"log4j2-{level}.properties"
    path.write_text(_LOG4J.format(level=level, target=target), encoding="utf-8")
    return path


def _properties(folder: Path, port: int, protocol: str, settings: Mapping[str, str]) -> str:
    controller = free_port()
    values = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"{protocol}://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"{protocol}://127.0.0.1:{port}",
        "inter.broker.listener.name": protocol,
        "listener.security.protocol.map": f"{protocol}:{protocol},CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(folder / "data"),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        **settings,
    }
    # In a file of Java's properties a backslash begins an escape.
    lines = (f"{key}={value}\n" for key, value in values.items())
    return "".join(lines).replace("\\", "\\\\")


def format_storage(
    properties: Path, jars: Sequence[Path], cluster_id: str, scram: Sequence[str] = ()
) -> None:
    """Make the log folders of one node members of a cluster."""
    done = subprocess.run(
        [
            str(ensure_java()),
            "-cp",
            class_path(jars),
            "kafka.tools.StorageTool",
            "format",
            "--ignore-formatted",
            "-t",
            cluster_id,
            "-c",
            str(properties),
            *(word for user in scram for word in ("--add-scram", user)),
        ],
        capture_output=True,
        text=True,
        timeout=FORMAT_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise Unavailable(f"Apache Kafka's storage could not be formatted: {done.stderr[-300:]}")

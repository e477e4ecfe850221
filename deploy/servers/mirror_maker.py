"""Apache Kafka's MirrorMaker 2 (4.3) in a process of its own, from one cluster to another.

In: two bootstrap addresses. Out: a running process. Never: used by the product itself.
"""

from __future__ import annotations

from pathlib import Path

from deploy.servers.process import JavaServer, free_port, launch
from deploy.setup.server_jars import mirror_maker_jars

MAIN = "org.apache.kafka.connect.mirror.MirrorMaker"
ALIAS = "A"
CONNECT_HEAP = ("-Xms256M", "-Xmx2G")
"""What Connect's own start script gives it."""

_PROPERTIES = """clusters = A, B
A.bootstrap.servers = {source}
B.bootstrap.servers = {target}
A->B.enabled = true
A->B.topics = {topics}
B->A.enabled = false
tasks.max = {tasks}
refresh.topics.interval.seconds = 5
sync.topic.acls.enabled = false
B.producer.compression.type = {compression}
"""
_ONE_COPY = """{name}.replication.factor = 1
"""
_INTERNAL = (
    "checkpoints.topic", "heartbeats.topic", "offset-syncs.topic", "offset.storage",
    "status.storage", "config.storage",
)  # fmt: skip
_IN_TRANSACTIONS = """B.exactly.once.source.support = enabled
dedicated.mode.enable.internal.rest = true
listeners = http://127.0.0.1:{port}
"""
_LOG4J = """status = error
rootLogger.level = warn
rootLogger.appenderRef.stdout.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
"""


def start_mirror_maker(
    folder: Path,
    source: str,
    target: str,
    topics: str,
    *,
    compression: str,
    tasks: int,
    in_transactions: bool = False,
) -> JavaServer:
    """Start it; nothing says that it copies, so it is not waited for. Topics are called `A.NAME` at
    the target. `in_transactions`: records and positions are committed together (KIP-618); by
    itself it copies at least once."""
    folder.mkdir(parents=True, exist_ok=True)
    values = {"source": source, "target": target, "topics": topics, "compression": compression,
              "tasks": tasks}  # fmt: skip
    text = _PROPERTIES.format(**values) + "replication.factor = 1\n"
    text += "".join(_ONE_COPY.format(name=name) for name in _INTERNAL)
    if in_transactions:
        text += _IN_TRANSACTIONS.format(port=free_port())
    properties, log4j = folder / "mm2.properties", folder / "log4j2.properties"
    properties.write_text(text, encoding="utf-8")
    log4j.write_text(_LOG4J, encoding="utf-8")
    return launch(
        "MirrorMaker 2", folder, 0, mirror_maker_jars(), [MAIN, str(properties)],
        options=[*CONNECT_HEAP, "-XX:+UseG1GC", f"-Dlog4j2.configurationFile=file:{log4j}"],
    )  # fmt: skip

"""The jars of what demos, tests and benches start or compare with: each set is a pom beside this.

In: nothing. Out: paths, fetched if the cache does not hold them; else `Unavailable`. Never: a start
of a server.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from deploy.errors import Unavailable
from deploy.setup.jars import jars_of

HERE = Path(__file__).resolve().parent
# With only these of pyspark's jars ZooKeeper is up in a second and needs half the memory.
ZOOKEEPER_NEEDS = (
    "zookeeper",
    "slf4j",
    "jul-to-slf4j",
    "log4j",
    "netty",
    "metrics-core",
    "snappy-java",
    "commons-io",
)


def kafka_jars() -> list[Path]:
    """Apache Kafka 4.4 and its tools."""
    return jars_of(HERE / "kafka.xml", "testserver-kafka")


def zookeeper_era_jars() -> list[Path]:
    """Apache Kafka's clients of 3.9, the last with the requests of its brokers under ZooKeeper."""
    return jars_of(HERE / "kafka-clients-3.9.xml", "kafka-clients-3.9")


def kafka_on_zookeeper_jars() -> list[Path]:
    """Apache Kafka 3.9, the last whose brokers stand on ZooKeeper, and ZooKeeper 3.8 with it."""
    return jars_of(HERE / "kafka-3.9.xml", "testserver-kafka-3.9")


def metadata_shell_jars() -> list[Path]:
    """kafka-metadata-shell, which is of 4.3."""
    return jars_of(HERE / "kafka-shell.xml", "testserver-kafka-shell")


def mirror_maker_jars() -> list[Path]:
    """MirrorMaker 2, which is of 4.3."""
    return jars_of(HERE / "mirror-maker.xml", "testserver-mirror-maker")


def hbase_jars() -> list[Path]:
    """HBase and its Thrift server."""
    return jars_of(HERE / "hbase.xml", "testserver-hbase")


def hbase_shell_jars() -> list[Path]:
    """What HBase's shell has beyond HBase's own jars."""
    return jars_of(HERE / "hbase-shell.xml", "testserver-hbase-shell")


def zookeeper_jars() -> list[Path]:
    """ZooKeeper's jars inside the installed pyspark; `Unavailable` without it."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise Unavailable("ZooKeeper: the pyspark package that carries its jars is not installed")
    folder = Path(found.origin).parent / "jars"
    jars = [jar for jar in sorted(folder.glob("*.jar")) if jar.name.startswith(ZOOKEEPER_NEEDS)]
    if not any(jar.name.startswith("zookeeper-3") for jar in jars):
        raise Unavailable(f"ZooKeeper: {folder} holds no zookeeper-3*.jar")
    return jars

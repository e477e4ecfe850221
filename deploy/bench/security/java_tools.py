"""Kafka's own programs for speed, as its users run them: with the compiler of their JVM.

In: a listener. Out: MB/s as the program says, after a warm-up of its own. Never: our client.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from deploy.bench.security.targets import SecurityTarget
from deploy.errors import OperatorError
from deploy.servers.process import class_path
from deploy.setup.java import ensure_java
from deploy.setup.server_jars import kafka_jars

RECORD_BYTES = 1024
BATCH_BYTES = 16_384
WARM_RECORDS, RECORDS = 300_000, 700_000
TIMEOUT_S = 300
_PRODUCER = "org.apache.kafka.tools.ProducerPerformance"
_CONSUMER = "org.apache.kafka.tools.ConsumerPerformance"
MIB_IN_MB = 1.048576
"""The programs count MiB."""


def produced_mb_s(target: SecurityTarget, protocol: str, topic: str, folder: Path) -> float:
    """Of batches of 16 KiB, acks=all, once the client's JVM is warm."""
    words = [
        "--topic", topic, "--record-size", str(RECORD_BYTES), "--throughput", "-1",
        "--num-records", str(WARM_RECORDS + RECORDS), "--warmup-records", str(WARM_RECORDS),
        "--command-property", f"batch.size={BATCH_BYTES}", "linger.ms=5",
    ]  # fmt: skip
    said = _run(_PRODUCER, target, protocol, folder, words)
    # 700000 records sent, 91234.1 records/sec (89.10 MB/sec), 340.2 ms avg latency, …
    line = [one for one in said.splitlines() if "MB/sec" in one][-1]
    return float(line.split("(")[1].split(" MB/sec")[0]) * MIB_IN_MB


def consumed_mb_s(target: SecurityTarget, protocol: str, topic: str, folder: Path) -> float:
    """Of what was produced, from the first record on; without the time to join the group."""
    words = ["--topic", topic, "--num-records", str(WARM_RECORDS + RECORDS), "--hide-header"]
    said = _run(_CONSUMER, target, protocol, folder, words)
    # start, end, MiB, MiB/s, records, records/s, rebalance ms, fetch ms, MiB/s of fetching, …
    cells = [line.split(", ") for line in said.splitlines() if line.count(", ") >= 9]
    return float(cells[-1][8]) * MIB_IN_MB


def _run(
    program: str, target: SecurityTarget, protocol: str, folder: Path, words: list[str]
) -> str:
    """What it prints. Raises OperatorError."""
    config = folder / f"client-{protocol}.properties"
    config.write_text(
        f"security.protocol={protocol}\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={target.authority}\nssl.enabled.protocols=TLSv1.3\n",
        encoding="ascii",
    )
    command = [
        str(ensure_java()), "-Xmx512m", "-cp", class_path(kafka_jars()), program,
        "--bootstrap-server", target.bootstrap(protocol), "--command-config", str(config), *words,
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=folder
    )
    if done.returncode != 0:
        raise OperatorError(f"{program} on {target.name} failed: {done.stderr[-400:]}")
    return done.stdout

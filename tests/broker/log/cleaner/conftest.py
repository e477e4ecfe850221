"""Apache Kafka's own cleaner, run on files of ours."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from deploy.bench.cleaner.measure import JAVA_FILE
from deploy.errors import Unavailable
from deploy.setup.java import ensure_java
from deploy.setup.server_jars import kafka_jars

JAVA_TIMEOUT_S = 100
DEDUPE_BYTES = 4 << 20

KafkaCleaner = Callable[[str], list[str]]


@pytest.fixture(scope="session")
def kafka_cleaner() -> KafkaCleaner:
    """What ``CleanLog.java`` answers to lines."""
    try:
        class_path = ":".join(map(str, kafka_jars()))
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka 4.4: {missing}")

    def run(lines: str) -> list[str]:
        command = [str(ensure_java()), "-cp", class_path, str(JAVA_FILE), str(DEDUPE_BYTES)]
        done = subprocess.run(
            command, input=lines, capture_output=True, text=True, timeout=JAVA_TIMEOUT_S,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run

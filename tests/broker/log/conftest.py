"""Real logs in memory-backed directories, and the batches to fill them with."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.config.views import TopicConfig
from broker.disk.real import RealDisk
from broker.log.log import Log
from bus.records.build import build_batch
from bus.records.record import Record

NOW_MS = 1_760_000_000_000


@pytest.fixture
def fast_dir() -> Iterator[str]:
    """A directory in memory where the machine has one; a flush costs nothing there."""
    base = "/dev/shm" if Path("/dev/shm").is_dir() else None
    directory = tempfile.mkdtemp(prefix="databus-log-", dir=base)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def make_log(fast_dir: str) -> Callable[..., Log]:
    """Opens the log ``t-0`` in the directory with any topic settings."""

    def make(
        *,
        clean: bool = False,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        **settings: object,
    ) -> Log:
        return Log(
            f"{fast_dir}/t-0",
            disk=RealDisk(),
            config=replace(TopicConfig(), **settings),  # type: ignore[arg-type]
            now_ms=NOW_MS,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
        )

    return make


@pytest.fixture
def batch() -> Callable[..., bytearray]:
    """A batch of ``count`` records of ``size`` bytes."""

    def build(
        count: int = 1,
        *,
        size: int = 10,
        timestamp_ms: int = NOW_MS,
        key: bytes | None = b"k",
        **fields: object,
    ) -> bytearray:
        records = [
            Record(key, bytes([65 + i % 26]) * size, timestamp_ms=timestamp_ms + i)
            for i in range(count)
        ]
        return build_batch(records, **fields)  # type: ignore[arg-type]

    return build

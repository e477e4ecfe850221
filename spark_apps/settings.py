"""Settings of the streaming applications, and the whole a job needs to start by itself.

`DATABUS_SPARK_JARS` (colon separated) is read in `session.py` only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Literal, get_args

import msgspec

from bus.domain.retention import RetentionSettings
from bus.settings import (
    BusSettings,
    Name,
    NotNegative,
    PageOfMetrics,
    Positive,
    Seconds,
    Secret,
    Share,
    SiteSettings,
)
from ingest.settings import StoreSettings

ApplicationName = Literal["watchlist", "ingest", "latency", "quality"]
ALARMS: ApplicationName = "watchlist"
"""What has a driver of its own where there are two."""
APART: Mapping[str, tuple[ApplicationName, ...]] = MappingProxyType(
    {"watchlist": ("watchlist",), "ingest": ("ingest",), "meters": ("latency", "quality")}
)
"""The drivers of a Spark cluster. What reads meters has a batch every ten seconds, and a JVM with
an executor costs more than both: they share one."""


_ENDS_AS_SECRET = re.compile(r"(secret|password|token|access[.]?key|secret[.]?key)$", re.I)
"""How names of Spark's keys end that are secrets."""


class StreamsSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the micro-batch applications run. Intervals are upper bounds of waiting, not of work."""

    master: str = ""  # empty: `spark-submit`'s, else local[N], N from the slots, never below 4
    conf: dict[str, str] = {}  # of Spark, in its own words; they win over ours
    drivers: Literal[1, 2] = 1  # 2: the watch list alone in a driver of its own
    driver_memory: str = "1g"
    java_options: str = ""  # of the driver's JVM, after our own; separated by blanks
    jars: str = ""  # Spark's Kafka connector, colon separated; empty: DATABUS_SPARK_JARS
    py_files: str = ""  # the zip of our packages (`./databus package`)
    # Spark's own keys in the form of spark-defaults.conf, for secrets: only its owner may read it.
    properties_file: str = ""
    checkpoint_dir: str = ""  # disposable; empty: memory (/dev/shm) or the data directory
    applications: tuple[ApplicationName, ...] = ("watchlist", "ingest", "latency", "quality")
    watchlist_trigger_ms: NotNegative = 0
    ingest_trigger_ms: NotNegative = 100
    latency_trigger_ms: NotNegative = 10_000  # a batch of few costs as much as one of many
    quality_trigger_ms: NotNegative = 10_000
    work_in: Literal["driver", "executors"] = "driver"  # where records are judged and matched
    share_reading: bool = True  # watch list and ingest in one query: half the micro-batches
    tasks_per_batch: NotNegative = 0  # reading, of the driver's work; 0: by slots and partitions
    max_offsets_per_batch: Positive = 50_000  # two batches at a time: about 200 MB in the driver
    max_batch_bytes: Positive = 64 << 20  # of values; what has more is read slice by slice
    latency_threshold_ms: Positive = 10_000  # p95 of a minute; opens an incident (L-3)
    latency_minutes: Positive = 3
    quality_gap_share: Share = 0.2  # of what a device sent in a minute
    quality_gap_minutes: Positive = 2
    stop_timeout_s: Seconds = 10.0
    metrics_host: Name = "127.0.0.1"
    metrics_port: PageOfMetrics = 8654  # a driver of few applications: one to four more

    def __post_init__(self) -> None:
        """Raises `ValueError`, the key first: two drivers have something to do each; every user of
        the machine reads command lines."""
        if self.drivers == 2 and (
            ALARMS not in self.applications or len(set(self.applications)) == 1
        ):
            raise ValueError(f"drivers: 2 needs {ALARMS} and another one in applications")
        for key in filter(_ENDS_AS_SECRET.search, self.conf):
            raise ValueError(
                f"conf: {key} is a secret, and what stands here is on the command line of Spark's"
                " JVM; write it into a file that properties_file names"
            )

    @property
    def wanted_master(self) -> str:
        """As configured; empty where `spark-submit` or the number of slots says it."""
        return self.conf.get("spark.master") or self.master

    def applications_of(self, *, alarms_alone: bool) -> tuple[ApplicationName, ...]:
        """What runs in the driver of the watch list alone, or in the one beside it (or in the only
        one)."""
        if alarms_alone:
            return (ALARMS,)
        return tuple(n for n in self.applications if self.drivers == 1 or n != ALARMS)

    def page_port(self, names: Sequence[str]) -> int:
        """Where a driver of these applications shows its metrics. Several drivers may share a
        machine: each of a cluster has the port of its first application."""
        base = self.metrics_port
        is_apart = any(set(names) <= set(few) for few in APART.values())
        if base <= 0 or not is_apart:
            return base
        return base + 1 + get_args(ApplicationName).index(names[0])


class JobSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything one driver needs; the JSON of this is what `--settings` reads."""

    site: SiteSettings = SiteSettings()
    bus: BusSettings = BusSettings()
    store: StoreSettings = StoreSettings()
    streams: StreamsSettings = StreamsSettings()
    retention: RetentionSettings = RetentionSettings()
    page_token: Secret = ""  # what the driver's page of metrics asks for; empty: nothing


def read_settings(path: Path) -> JobSettings:
    """Settings from a JSON file. Raises `msgspec.ValidationError` naming the key at fault."""
    return msgspec.json.decode(path.read_bytes(), type=JobSettings)

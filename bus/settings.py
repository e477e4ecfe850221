"""Settings that every room shares: who we are and where the bus is.

In: values that `deploy.settings` has read and merged. Out: frozen objects.
Never: reading files or the environment.
"""

from __future__ import annotations

from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec


class SiteSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One site: its short name, its wall clock and its data directory."""

    name: str = "main"
    zone: str = "Asia/Shanghai"
    language: str = "zh"
    data_dir: str = "var"

    @property
    def data_path(self) -> Path:
        """The data directory as an absolute path."""
        return Path(self.data_dir).absolute()

    @property
    def tz(self) -> ZoneInfo:
        """The zone in which devices of this site write their times (design: *time*)."""
        return ZoneInfo(self.zone)


class BusSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the Kafka-compatible brokers are: ours or anybody's."""

    bootstrap_servers: str = "127.0.0.1:9092"

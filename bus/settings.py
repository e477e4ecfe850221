"""Settings that every room shares: who we are and where the bus is.

In: values that `deploy.settings` has read and merged. Out: frozen objects.
Never: reading files or the environment.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
"""A TCP port to listen on."""
Secret = Annotated[str, msgspec.Meta(extra={"secret": True})]
"""A token, a password, a key: `./databus config` says only whether it is set."""


class SiteSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One site: its short name, its wall clock and its data directory."""

    name: str = "main"
    zone: str = "Asia/Shanghai"
    language: str = "zh"
    data_dir: str = "var"
    # A capture further ahead of its arrival is a clock fault; cameras drift by seconds a day.
    clock_ahead_minutes: int = 10
    # A capture older than this is a clock fault too; 0: what the store says it keeps.
    keep_days: int = 0

    def __post_init__(self) -> None:
        """Refuse a zone that nobody knows: every time of the site would be wrong by hours."""
        try:
            ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(
                f"zone: there is no time zone {self.zone!r}; write an IANA name as Asia/Shanghai"
            ) from None

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

"""Settings that every package shares: who we are and where the bus is.

In: values that `deploy.settings.composed` has read and merged. Out: frozen objects.
Never: reading files or the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from bus.security.java_config import PKCS8_BEGIN, java_config
from bus.security.page_token import check_page_token

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
"""A TCP port to listen on."""
PageOfMetrics = Annotated[int, msgspec.Meta(ge=-1, le=65535)]
"""A TCP port to show metrics on; 0: any that is free, -1: none."""
Positive = Annotated[int, msgspec.Meta(ge=1)]
"""A number of things, bytes or time units of which none would make no sense."""
NotNegative = Annotated[int, msgspec.Meta(ge=0)]
"""The same where 0 has a meaning of its own, which stands beside the key."""
Seconds = Annotated[float, msgspec.Meta(ge=0, le=86_400)]
"""A length of time, up to a day; no NaN."""
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
"""A part of a whole."""
Name = Annotated[str, msgspec.Meta(min_length=1)]
"""What may not be left empty."""
Secret = Annotated[str, msgspec.Meta(extra={"secret": True})]
"""A token, a password, a key: `./databus config` says only whether it is set."""


def check_trusted_proxies(text: str) -> None:
    """Refuse what is neither an address nor a network: it would match no proxy, without a word."""
    for each in filter(None, (part.strip() for part in text.split(","))):
        try:
            ip_network(each, strict=False)
        except ValueError:
            raise ValueError(
                f"trusted_proxies: {each!r} is no address; write 10.0.0.5 or 10.0.1.0/24"
            ) from None


class SiteSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One site: its short name, its wall clock and its data directory."""

    name: Name = "main"
    zone: str = "Asia/Shanghai"
    language: Literal["zh", "en"] = "zh"
    data_dir: Name = "var"
    # A capture further ahead of its arrival is a clock fault; cameras drift by seconds a day.
    clock_ahead_minutes: NotNegative = 10
    # A clock that is behind by this or more is corrected once minutes agree on it; 0: never. Raise
    # it where even the quickest records need longer to arrive.
    clock_behind_seconds: NotNegative = 30
    # A capture older than this is a clock fault too; 0: what the store says it keeps.
    keep_days: NotNegative = 0
    # A table of misreadings of the site's own (`./databus watch confusion fit`), in the data
    # directory or anywhere; empty: the packaged one.
    confusion_table: str = ""

    def __post_init__(self) -> None:
        """Refuse an unknown zone: every time of the site would be wrong by hours."""
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
    def confusion_path(self) -> Path | None:
        """The file of the site's own table of misreadings, if it has one."""
        return self.data_path / self.confusion_table if self.confusion_table else None

    @property
    def tz(self) -> ZoneInfo:
        """The zone in which devices of this site write their times."""
        return ZoneInfo(self.zone)


class BusSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the Kafka-compatible brokers are, ours or others', and how they are reached."""

    bootstrap_servers: Name = "127.0.0.1:9092"
    # Keys of librdkafka for all our clients; those of security are said to Spark's connector too.
    librdkafka: dict[str, Secret] = {}
    java: dict[str, Secret] = {}  # keys of Kafka's Java client, for Spark's connector as they are

    def __post_init__(self) -> None:
        """Refuse what Spark's connector could not be told; files are read by those who connect."""
        java_config(self.librdkafka, self.java, lambda _: PKCS8_BEGIN)


def other_bus(
    own: BusSettings, bootstrap_servers: str, librdkafka: Mapping[str, str]
) -> BusSettings | None:
    """Brokers of another site, reached as our own are unless it has keys of its own; None where no
    broker is named."""
    if not bootstrap_servers:
        return None
    keys = dict(librdkafka) or own.librdkafka
    return msgspec.structs.replace(own, bootstrap_servers=bootstrap_servers, librdkafka=keys)


class SecuritySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether the site is secured, and what its processes are known by."""

    # The folder that `./databus secure init` has made, in the data directory or anywhere; empty:
    # the bus is open to whoever reaches it.
    folder: str = ""
    # What /metrics and status pages ask their readers for, as `Authorization: Bearer TOKEN`; empty:
    # nobody is asked. An account's file holds it.
    page_token: Secret = ""

    def __post_init__(self) -> None:
        """Refuse a token that no header can carry."""
        try:
            check_page_token(self.page_token)
        except ValueError as error:
            raise ValueError(f"page_token: {error}") from None

    def folder_path(self, site: SiteSettings) -> Path | None:
        """The folder as an absolute path; None where the site is open."""
        return site.data_path / self.folder if self.folder else None

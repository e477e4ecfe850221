"""Settings of what enters and what is stored: the edge, its spool, the pictures, the store."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import msgspec

from bus.settings import (
    BusSettings,
    Name,
    NotNegative,
    Port,
    Positive,
    Seconds,
    Secret,
    SiteSettings,
    check_trusted_proxies,
    other_bus,
)

MIB = 1 << 20


class EdgeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The HTTP edge. Without `tokens` every sender is let in under its address; without
    `tokens` and `reader_tokens` pictures and the devices' figures are open to everybody."""

    host: Name = "127.0.0.1"
    port: Port = 8650
    tokens: dict[str, Secret] = {}  # sender's name -> its bearer token
    reader_tokens: dict[str, Secret] = {}  # who may read pictures and devices' figures -> its token
    # Mirrors that copy pictures from here and to here -> their tokens; without one nobody may.
    mirror_tokens: dict[str, Secret] = {}
    # Addresses of proxies in front, "10.0.0.5, 10.0.1.0/24": the client's address they tell is
    # taken as the record's source; other senders' headers are ignored.
    trusted_proxies: str = ""
    max_body_bytes: Positive = 32 * MIB
    max_records_per_request: Positive = 10_000
    max_record_bytes: Positive = 512 * 1024  # below the brokers' message.max.bytes with some room
    max_picture_bytes: Positive = 8 * MIB
    spool_max_bytes: Positive = 2048 * MIB
    spool_min_free_bytes: NotNegative = 512 * MIB
    spool_segment_bytes: Positive = 64 * MIB
    max_in_flight_records: Positive = 20_000  # produced and not yet acknowledged by the bus
    # Brokers of the second site, to which the mirror copies. With them the spool keeps what the bus
    # has until the mirror has confirmed it there; empty: nothing is kept.
    second_site_bootstrap_servers: str = ""
    # How they are reached, in librdkafka's keys; empty: as our own are.
    second_site_librdkafka: dict[str, Secret] = {}
    # An edge there, http://host:8650, which says what the second site has; empty: its brokers are
    # asked.
    second_site_url: str = ""
    # One of that edge's `reader_tokens`, or its token of pages; empty: [security] page_token.
    second_site_token: Secret = ""
    # Of what is kept, beside spool_max_bytes; beyond, the oldest go and are counted.
    kept_max_bytes: Positive = 2048 * MIB
    # After so long without progress the second site is asked whether it has taken over; 0: never,
    # the edge moves only by `databus edge move`.
    move_after_s: Seconds = 2.0

    def __post_init__(self) -> None:
        """Refuse proxies that cannot be."""
        check_trusted_proxies(self.trusted_proxies)

    @property
    def retained_max_bytes(self) -> int:
        """How much is kept for a second site; 0: there is none."""
        return self.kept_max_bytes if self.second_site_bootstrap_servers else 0

    def second_site(self, bus: BusSettings) -> BusSettings | None:
        """The second site's bus: other brokers, reached as our own are unless it has keys of its
        own."""
        return other_bus(bus, self.second_site_bootstrap_servers, self.second_site_librdkafka)

    def spool_dir(self, site: SiteSettings) -> Path:
        """Where acknowledged records wait for the bus."""
        return site.data_path / "spool"


class PictureSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the originals are kept (I-7) and under which address they are served.

    `url` is any fsspec URL; empty means the folder `pictures` of the data directory. `public_url`
    is what a record's picture address begins with; empty means the edge's own address.
    """

    url: str = ""
    public_url: str = ""
    write_timeout_ms: Positive = 2_000
    waiting_max_bytes: Positive = 1024 * MIB  # pictures that wait on the local disk for their store

    def store_url(self, site: SiteSettings) -> str:
        """The fsspec URL of the picture store."""
        return self.url or (site.data_path / "pictures").as_uri()

    def base_url(self, edge: EdgeSettings) -> str:
        """What picture addresses begin with, without a slash at the end."""
        host = "127.0.0.1" if edge.host in ("0.0.0.0", "::") else edge.host
        return (self.public_url or f"http://{host}:{edge.port}").rstrip("/")


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The record store. An empty `url` means the SQLite file of the data directory; else it is
    `sqlite:///absolute/path` or `hbase://host:9090/name?keep_days=90`."""

    url: str = ""

    @property
    def keep_days(self) -> int:
        """How long the store keeps a record; 0: for ever."""
        days = dict(parse_qsl(urlsplit(self.url).query)).get("keep_days", "0")
        return int(days) if days.isdecimal() else 0

    def records_url(self, site: SiteSettings) -> str:
        """Where the records are."""
        return self.url or f"sqlite://{site.data_path / 'store' / 'records.db'}"

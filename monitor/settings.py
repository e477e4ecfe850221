"""Settings of the console (address, sessions, limits of what it holds in memory) and the watch."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import msgspec

from bus.settings import (
    Name,
    PageOfMetrics,
    Port,
    Positive,
    Seconds,
    Secret,
    Share,
    SiteSettings,
    check_trusted_proxies,
)

MIN_SECRET = 32
"""Characters of a key from which others are derived: nothing slows down who guesses."""


class ConsoleSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`databus.toml` [console]. Every number here bounds something; the reason stands beside it."""

    host: Name = "127.0.0.1"
    port: Port = 8651
    # Addresses of proxies in front, "10.0.0.5, 10.0.1.0/24": what they say of the client's address
    # and of TLS is believed; other peers are not.
    trusted_proxies: str = ""
    session_hours: Positive = 8  # one shift; then the password is asked again
    link_minutes: Positive = 60  # how long the link that `demo` prints may wait to be opened
    # Per account, and address or known device, within the window; then the account is locked there.
    failed_logins: Positive = 5
    # Over all names: five people who mistype; then the address is slowed, not locked (ADR 0080).
    failed_logins_per_address: Positive = 25
    failed_login_window_seconds: Positive = 300
    live_rows: Positive = 100  # rows a live grid keeps; more is a search, not a glance
    decoded_per_second: Positive = 200  # of the data topics; the rest is counted, not looked into
    quiet_after_seconds: Positive = 120  # a checkpoint without a record so long is drawn as quiet
    reader_threads: Positive = 3  # questions to one store at a time; each holds one connection
    applications: tuple[str, ...] = (
        "ingest", "quality", "latency", "watchlist", "dispatcher", "recorder",
    )  # fmt: skip
    pictures: str = ""  # fsspec URL of the picture store; empty: that of [pictures]
    # "http://host:port" of an edge of the other site, asked for pictures that are not here;
    # the host in a record is never asked. Empty: nobody is.
    other_site_pictures: str = ""
    other_site_pictures_token: Secret = ""  # one of that edge's `reader_tokens`
    # The same long text at both sites: with it accounts are carried to the other one, sealed.
    # Empty: they are not.
    accounts_secret: Secret = ""
    zookeeper: str = ""  # host:port,... of the brokers' ensemble; empty: the cluster runs on KRaft
    # files of PEM where the ensemble asks for certificates: ours with its key, who signs theirs
    zookeeper_certificate_pem: str = ""
    zookeeper_authority_pem: str = ""
    brokers: str = ""  # where the brokers' /metrics are: "1=http://host:9094/metrics, 2=…"
    health: dict[str, str] = {}  # name -> URL asked for the page of the processes
    # One of the edges' `reader_tokens`, to ask which senders they refuse; empty: this machine's.
    edge_token: Secret = ""
    mirror: str = ""  # "http://host:port" of the mirror's metrics; empty: this machine's, if any

    def __post_init__(self) -> None:
        """Refuse proxies that cannot be."""
        check_trusted_proxies(self.trusted_proxies)
        length = len(self.accounts_secret)
        if 0 < length < MIN_SECRET:
            raise ValueError(
                f"accounts_secret has {length} characters; {MIN_SECRET} at least, for instance of:"
                " openssl rand -base64 32"
            )
        if self.other_site_pictures and not re.match(r"https?://[^/]", self.other_site_pictures):
            raise ValueError('other_site_pictures is an edge\'s address: "http://host:port"')


class WatchSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`databus.toml` [watch]: the bounds after which something is an incident."""

    away_s: Seconds = 30.0  # store, broker, driver, dispatcher, edge, console do not answer
    standing_s: Seconds = 30.0  # records wait, and the position does not move
    backlog_s: Seconds = 60.0  # a stage is so far behind the end of its topics,
    backlog_records: Positive = 100_000  # or by so many records
    filling_share: Share = 0.9  # of a disk
    spool_share: Share = 0.5  # of the edge's spool: half an outage is left
    filling_s: Seconds = 30.0
    silence_factor: Annotated[float, msgspec.Meta(ge=1, le=100)] = 4.0  # times the p99 of the gaps
    silence_min_s: Seconds = 120.0
    silence_together: Positive = 5  # senders that fall silent together are one incident
    curve_lost_share: Share = 0.2  # of what was sent and did not become valid
    curve_minutes: Positive = 3
    probe_interval_s: Annotated[float, msgspec.Meta(ge=0.1, le=10)] = 5.0
    probe_timeout_s: Annotated[float, msgspec.Meta(ge=0.1, le=60)] = 3.0
    file: str = ""  # incidents, notices, habits; empty: watch/watch.db of the data directory
    metrics_host: Name = "127.0.0.1"
    metrics_port: PageOfMetrics = 8653
    # name -> URL that must answer, besides those of this machine: edge, console, dispatcher and the
    # drivers (streams, streams-ingest, …). Another URL for one of these replaces it, "" leaves it
    # out; edge-2 and so on are more edges, whose spools are asked, too.
    health: dict[str, str] = {}
    # One of the edges' `reader_tokens`, to name the peers that they refuse; empty: this machine's.
    edge_token: Secret = ""

    def file_path(self, site: SiteSettings) -> Path:
        """The watch's own file."""
        return Path(self.file) if self.file else site.data_path / "watch" / "watch.db"

    def heartbeat_path(self, site: SiteSettings) -> Path:
        """What it writes every few seconds, so that others see that it lives."""
        return self.file_path(site).with_name("heartbeat.json")

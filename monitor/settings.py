"""Settings of the console process: address, sessions, limits of what it holds in memory."""

from __future__ import annotations

import msgspec

from bus.settings import Name, Port, Positive, check_trusted_proxies


class ConsoleSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`databus.toml` [console]. Every number here bounds something; the reason stands beside it."""

    host: Name = "127.0.0.1"
    port: Port = 8651
    # Addresses of proxies in front, "10.0.0.5, 10.0.1.0/24": what they say of the client's address
    # and of TLS is believed; other peers are not.
    trusted_proxies: str = ""
    session_hours: Positive = 8  # one shift; then the password is asked again
    link_minutes: Positive = 60  # how long the link that `demo` prints may wait to be opened
    failed_logins: Positive = 5  # per account and address within the window, then it is locked
    failed_logins_per_address: Positive = 25  # over all names: five people who mistype
    failed_login_window_seconds: Positive = 300
    live_rows: Positive = 100  # rows a live grid keeps; more is a search, not a glance
    decoded_per_second: Positive = 200  # of the data topics; the rest is counted, not looked into
    quiet_after_seconds: Positive = 120  # a checkpoint without a record so long is drawn as quiet
    reader_threads: Positive = 3  # questions to one store at a time; each holds one connection
    applications: tuple[str, ...] = ("ingest", "quality", "latency", "watchlist", "dispatcher")
    pictures: str = ""  # fsspec URL of the picture store; empty: that of [pictures]
    zookeeper: str = ""  # host:port,... of the brokers' ensemble; empty: the cluster runs on KRaft
    brokers: str = ""  # where the brokers' /metrics are: "1=http://host:9094/metrics, 2=…"
    health: dict[str, str] = {}  # name -> URL asked for the page of the processes

    def __post_init__(self) -> None:
        """Refuse proxies that cannot be."""
        check_trusted_proxies(self.trusted_proxies)

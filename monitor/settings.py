"""Settings of the console process: address, sessions, limits of what it holds in memory.

In: values that `deploy.settings` has read. Out: a frozen object. Never: reading files or the
environment.
"""

from __future__ import annotations

import msgspec

from bus.settings import Port


class ConsoleSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`databus.toml` [console]. Every number here bounds something; the reason stands beside it."""

    host: str = "127.0.0.1"
    port: Port = 8651
    # Addresses of proxies in front, "10.0.0.5, 10.0.1.0/24": what they say of the client's address
    # and of TLS is believed. Nobody else is.
    trusted_proxies: str = ""
    session_hours: int = 8  # one shift; then the password is asked again
    link_minutes: int = 60  # how long the link that `demo` prints may wait to be opened
    failed_logins: int = 5  # per account and address within the window, then the door stays shut
    failed_logins_per_address: int = 25  # whatever the names: five people who mistype
    failed_login_window_seconds: int = 300
    live_rows: int = 100  # rows a live grid keeps; more is a search, not a glance
    decoded_per_second: int = 200  # of the data topics; the rest is counted, not looked into
    quiet_after_seconds: int = 120  # a checkpoint without a record for so long is drawn as quiet
    reader_threads: int = 3  # questions to one store at a time; each holds one connection
    applications: tuple[str, ...] = ("ingest", "quality", "latency", "watchlist", "dispatcher")
    pictures: str = ""  # fsspec URL of the picture store; empty: that of [pictures]
    zookeeper: str = ""  # host:port,... of the brokers' ensemble; empty: the cluster runs on KRaft
    brokers: str = ""  # where the brokers' /metrics are: "1=http://host:9094/metrics, 2=…"
    health: dict[str, str] = {}  # name -> URL asked for the page of the processes

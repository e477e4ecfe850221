"""Whether an address is of this machine alone. Pure.

In: hosts, addresses, URLs as settings have them. Out: yes or no. Never: a question to a resolver: a
name other than `localhost` may be anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from urllib.parse import urlsplit

HTTP = "http://"


def is_loopback(host: str) -> bool:
    """Whether only processes of the same machine reach it. An empty host is every address."""
    name = host.strip().strip("[]").lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def hosts_of(servers: str) -> Iterator[str]:
    """The hosts of `host:port,host:port`."""
    for one in servers.split(","):
        host, colon, _ = one.strip().rpartition(":")
        if one.strip():
            yield host if colon else one.strip()


def is_plain_beyond_loopback(url: str) -> bool:
    """Whether what is sent there can be read on the way."""
    if not url.lower().startswith(HTTP):
        return False
    try:
        return not is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return True


def origin_of(url: str) -> str:
    """The address without what may be secret in it: chat services put their key into the path."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        return f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port else "")
    except ValueError:
        return "an address that cannot be read"

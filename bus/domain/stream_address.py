"""Which addresses a recorder may open. Pure.

In: the address that the register has for a camera's stream, and where its name leads to. Out: the
parts of it. Raises `StreamRefused`. Never: a password in an address; a host that is this machine or
one that only a link leads to, unless the settings allow it.
"""

from __future__ import annotations

import ipaddress
from typing import NamedTuple
from urllib.parse import urlsplit

RTSP_PORT = 554
MAX_ADDRESS_CHARACTERS = 500


class StreamRefused(ValueError):
    """An address that is not opened, and why."""


class StreamAddress(NamedTuple):
    """`url` is what requests name."""

    host: str
    port: int
    url: str


def stream_address(url: str) -> StreamAddress:
    """The parts of a stream's address. Raises `StreamRefused`."""
    if len(url) > MAX_ADDRESS_CHARACTERS or not url.isascii() or not url.isprintable():
        raise StreamRefused("an address is up to 500 printable ASCII characters")
    if " " in url:
        raise StreamRefused("a blank in the address")
    try:
        parts = urlsplit(url)
        port = parts.port or RTSP_PORT
    except ValueError as error:
        raise StreamRefused(str(error)) from None
    if parts.scheme != "rtsp":
        raise StreamRefused("a stream's address begins with rtsp://")
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        raise StreamRefused("no name and no password in the address: they stand in the settings")
    if not parts.hostname:
        raise StreamRefused("an address without a host")
    if parts.fragment:
        raise StreamRefused("an address with a fragment")
    return StreamAddress(parts.hostname, port, url)


def check_host(address: str, *, allow_loopback: bool = False) -> None:
    """Raises `StreamRefused` for an IP address that no camera of others has."""
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    if ip.is_loopback:
        if allow_loopback:
            return
        raise StreamRefused(f"{address} is this machine; [film] allow_loopback allows it")
    if ip.is_link_local or ip.is_multicast or ip.is_unspecified or ip.is_reserved:
        raise StreamRefused(f"{address} is no address of a camera in a network")

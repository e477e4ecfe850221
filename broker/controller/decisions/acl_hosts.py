"""The host of an ACL: `*`, an address, or from 4.4-IV1 on a block of addresses (`10.0.0.0/8`).

In: the text of a new rule. Raises RefusedError for one that Kafka refuses, too. Never: whether a
client's address lies in a block; that is the authorizer's.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv6Address

from broker.controller.decisions.decision import RefusedError
from broker.metadata.versions import CIDR_LEVEL, LEVEL_NAMES
from bus.errors import ErrorCode

_IPV4_BLOCK = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,3}){3})/([0-9]{1,2})")
# Java's `Integer.parseInt` takes the digits of every script, one UTF-16 unit each.
_IPV6_BLOCK = re.compile(
    r"([0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)/([+-]?(?:(?![\U00010000-\U0010ffff])\d){1,20})"
)
_LEADING_ZEROS = re.compile(r"(?<![0-9A-Fa-f])0+(?=[0-9A-Fa-f])")
_IPV4_BITS, _IPV6_BITS = 32, 128
MAX_OCTET = 255


def check_host(host: str, metadata_version: int) -> None:
    """Refuse an empty host, a block before its level, and a block that is none."""
    if not host:
        raise RefusedError(ErrorCode.INVALID_REQUEST, "Host pattern cannot be null or empty")
    if "/" not in host:
        return
    if metadata_version < CIDR_LEVEL:
        raise RefusedError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"CIDR-based ACL host patterns require metadata version {LEVEL_NAMES[CIDR_LEVEL]} or "
            "higher.",
        )
    if not _is_block(host):
        raise RefusedError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid CIDR notation '{host}': an address, a slash and the number of its first bits",
        )


def _is_block(text: str) -> bool:
    if four := _IPV4_BLOCK.fullmatch(text):
        return int(four[2]) <= _IPV4_BITS and _is_ipv4(four[1])
    six = _IPV6_BLOCK.fullmatch(text)
    return six is not None and 0 <= int(six[2]) <= _IPV6_BITS and _is_ipv6(six[1])


def _is_ipv4(address: str) -> bool:
    """Kafka takes octets with leading zeros, in decimal."""
    return all(int(octet) <= MAX_OCTET for octet in address.split("."))


def _is_ipv6(address: str) -> bool:
    """Kafka takes groups and octets with any number of leading zeros."""
    try:
        return IPv6Address(_LEADING_ZEROS.sub("", address)).ipv4_mapped is None
    except AddressValueError:
        return False

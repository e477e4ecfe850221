"""Suites of TLS by their standard names, as Kafka's keys have them, in OpenSSL's words. Pure.

In: names such as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256. Out: OpenSSL's names for TLS 1.2, which
versions they leave, and which suites of TLS 1.3 may be spoken. Raises CipherError. Never: one that
encrypts nothing or needs no certificate.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_OF_TLS_1_2 = re.compile(
    r"TLS_(ECDHE_ECDSA|ECDHE_RSA|DHE_RSA|RSA)_WITH_"
    r"(?:AES_(128|256)_(GCM|CBC)_(SHA256|SHA384|SHA)|(CHACHA20_POLY1305)_SHA256)"
)
_OF_TLS_1_3 = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)

PREFERRED = "TLS_AES_256_GCM_SHA384"
"""OpenSSL takes it with every client that has it, and cannot be told otherwise by Python 3.11."""


class CipherError(Exception):
    """The name of no suite that is served."""


def openssl_names(suites: Sequence[str]) -> tuple[str, ...]:
    """Those of TLS 1.2."""
    return tuple(_named(one) for one in suites if one not in _OF_TLS_1_3)


def served_of_tls_1_3(suites: Sequence[str]) -> frozenset[str]:
    """Those that a server may speak; all where none is named. What OpenSSL prefers has to be among
    them: clients that have it, and nearly all have, could not be let in."""
    named = _OF_TLS_1_3.intersection(suites)
    if named and PREFERRED not in named:
        raise CipherError(f"{PREFERRED} must be among those of TLS 1.3 that are named")
    return named or _OF_TLS_1_3


def versions_left(versions: Sequence[str], suites: Sequence[str]) -> tuple[str, ...]:
    """The versions of TLS for which a suite is named; all where none is."""
    if not suites:
        return tuple(versions)
    named = {"TLSv1.3" if one in _OF_TLS_1_3 else "TLSv1.2" for one in suites}
    return tuple(one for one in versions if one in named)


def _named(suite: str) -> str:
    found = _OF_TLS_1_2.fullmatch(suite)
    if found is None:
        raise CipherError(f"{suite} is not served")
    exchange, bits, mode, digest, chacha = found.groups()
    words = [] if exchange == "RSA" else [exchange.replace("_", "-")]
    if chacha:
        words.append("CHACHA20-POLY1305")
    else:
        words.append(f"AES{bits}")
        words += ["GCM"] if mode == "GCM" else []
        words.append(digest)
    return "-".join(words)

"""One number for a plate. Pure.

In: a text of at most `MAX_PLATE_CHARACTERS`. Out: a number below `MODULUS`; `plate_codes` computes
the same for many at once. Never: a promise that two plates have two numbers: what is found by one
is compared.
"""

from __future__ import annotations

BITS = 42
MODULUS = 4_363_686_785_077
"""A prime below 2 ** BITS: a code point (21 bits) times a smaller number stays below 2 ** 63."""
FACTOR = 2_718_281_828_459
"""Spreads the first characters over all bits as well."""


def hash_of(text: str) -> int:
    """Of one text."""
    return int.from_bytes(text.encode("utf-32-le"), "little") * FACTOR % MODULUS

"""The identity of a record and its partition key (row I-2 of docs/from_the_seeds.md).

An identity is made once, where the record enters, and every retry keeps it; it is text that is safe
in keys, paths and URLs. Time and random bytes come in as values. Clients hash partition keys
(murmur2) and spread records without one.
"""

from __future__ import annotations

import hashlib

from crc32c import crc32c

from bus.domain.kinds import KINDS
from bus.domain.plates import plate_key


def uuid7(now_ms: int, random_bytes: bytes) -> str:
    """A UUIDv7 (RFC 9562) from epoch milliseconds and 10 random bytes: ids of one minute stay
    neighbours."""
    number = (now_ms & 0xFFFF_FFFF_FFFF) << 80 | int.from_bytes(random_bytes[:10], "big")
    number = number & ~(0xF << 76) | 0x7 << 76
    number = number & ~(0x3 << 62) | 0x2 << 62
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def sender_scoped_id(
    sender: str, camera_ip: str, kind: str, number: str, captured_at: str = ""
) -> str:
    """The identity of a record that its sender numbers itself (`记录编号`, `Idempotency-Key`).

    Scoped by sender, device, kind and capture time as the device wrote it, because every device
    counts from one, and again after a restart. `sender` is empty where a record is on the bus
    without an identity: nothing there says who produced it. Hashed, because a stranger's text has
    no place in keys and paths; 128 bits, marked `own-` so that it is not mistaken for a UUIDv7.
    """
    parts = (sender, camera_ip, kind, number, *((captured_at,) if captured_at else ()))
    scope = "\x1f".join(parts).encode("utf-8", "surrogatepass")
    return "own-" + hashlib.blake2b(scope, digest_size=16).hexdigest()


def bus_id(topic: str, partition: int, offset: int, value: bytes) -> str:
    """The identity of a record that came to the bus without one: its place there and the CRC32C of
    its value. A mirror keeps all four; a topic created again, or another cluster, collides with
    nothing that differs."""
    return f"{topic}-{partition}-{offset}-{crc32c(value):08x}"


def key_of(kind: str, *, plate_number: str = "", camera_ip: str = "") -> bytes | None:
    """The partition key: what has plates by plate, everything else by device; None where the plate
    is unread, missing or masked."""
    if KINDS[kind].has_plate:
        return plate_key(plate_number).encode() or None
    return camera_ip.encode("utf-8", "replace") or None

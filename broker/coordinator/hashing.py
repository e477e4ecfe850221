"""Java's hash of a string, by which every broker finds a group's partition (pure)."""

from __future__ import annotations


def java_hash(text: str) -> int:
    """Java's String.hashCode, by which Kafka spreads groups over partitions."""
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(data[::2], data[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def java_abs(value: int) -> int:
    """Kafka's Utils.abs: the smallest int has no positive twin and becomes 0."""
    return 0 if value == -(1 << 31) else abs(value)

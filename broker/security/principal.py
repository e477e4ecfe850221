"""Who asks. Every request carries a principal, from the first day.

Never: how somebody proved who they are; that is the listener's authentication.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Principal:
    """Kafka's KafkaPrincipal: a kind (User) and a name."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS = Principal("User", "ANONYMOUS")
"""Whoever connects to a plaintext listener."""

"""The principal of a request. How it was authenticated is the listener's concern."""

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
"""The principal of every client of a plaintext listener."""
THIS_NODE = Principal("Node", "this")
"""The principal of requests of a process to itself. Compared by identity: no client can send it."""

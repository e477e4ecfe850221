"""The principal of a request. How it was authenticated is the listener's concern."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Principal:
    """Kafka's KafkaPrincipal: a kind (User) and a name. Whoever logged in with a delegation token
    (KIP-48) is the same principal as its owner, but may ask for no further token."""

    kind: str
    name: str
    has_token: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> Principal:
        """The inverse of `str`. Raises ValueError."""
        kind, colon, name = text.partition(":")
        if not colon:
            raise ValueError(f"{text!r} is no principal: KIND:NAME")
        return cls(kind, name)


ANONYMOUS = Principal("User", "ANONYMOUS")
"""The principal of every client of a plaintext listener."""
THIS_NODE = Principal("Node", "this")
"""The principal of requests of a process to itself. Compared by identity: no client can send it."""

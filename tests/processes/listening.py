"""Which sockets a process has, as Linux tells them: those that listen, and their connections."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ESTABLISHED, LISTEN = "01", "0A"


@dataclass(frozen=True)
class TcpSocket:
    """One of a process: its own port, the other end's (0 where it listens)."""

    port: int
    peer_port: int
    state: str


def sockets_of(pid: int) -> list[TcpSocket]:
    """All of TCP that the process has open."""
    own = set(_inodes(pid))
    return [one for inode, one in _table(pid) if inode in own]


def _inodes(pid: int) -> Iterator[str]:
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            target = str(descriptor.readlink())
            if target.startswith("socket:["):
                yield target[len("socket:[") : -1]


def _table(pid: int) -> Iterator[tuple[str, TcpSocket]]:
    for family in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{family}").read_text("ascii").splitlines()[1:]:
            fields = line.split()
            port, peer = (int(fields[at].rpartition(":")[2], 16) for at in (1, 2))
            yield fields[9], TcpSocket(port, peer, fields[3])

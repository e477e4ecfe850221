"""Which peers are refused for what, and how much of what they send is kept. Pure.

In: refusals, the time. Out: groups by reason and maker, peers, whether a refusal is worth a line,
how many bytes of it may be kept. Never: I/O, the clock; more than `MAX_PEERS` rows.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from bus.contracts.sender_faults import FIRST_PEERS, RefusedGroup, RefusedPeer
from bus.domain.times import DAY_MS, HOUR_MS, MINUTE_MS

MAX_PEERS = 10_000
LINE_EVERY_MS = 10 * MINUTE_MS  # of one peer, reason and maker
MAX_LINES = 20  # a minute: a street says the same thing a hundred times
RETAINED_BYTES_OF_PEER = 256 * 1024  # an hour
RETAINED_BYTES = 16 << 20  # an hour, of all peers
MAX_RETAINED = 5_000  # requests an hour, however small
MAX_REQUEST_LINE = 120


class RefusedRequest(NamedTuple):
    """One request of which nothing was taken. `could_be_record`: a sender may have lost one."""

    reason: str
    maker: str
    peer: str
    request: str
    could_be_record: bool = True


@dataclass(slots=True)
class _Row:
    requests: int
    first_ms: int
    last_ms: int
    request: str
    could_be_record: bool = False
    line_ms: int = -LINE_EVERY_MS


class RefusalTable:
    """Invariant: `_rows` has `MAX_PEERS` at most, the one that was refused last at its end."""

    def __init__(self) -> None:
        self._rows: OrderedDict[tuple[str, str, str], _Row] = OrderedDict()
        self._minute = 0
        self._lines = 0

    def add(self, refusal: RefusedRequest, now_ms: int) -> bool:
        """Whether it is worth a line in the log."""
        key = refusal.reason, refusal.maker, refusal.peer
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = _Row(0, now_ms, now_ms, "")
            if len(self._rows) > MAX_PEERS:
                self._rows.popitem(last=False)
        self._rows.move_to_end(key)
        row.requests, row.last_ms = row.requests + 1, now_ms
        row.request = refusal.request[:MAX_REQUEST_LINE]
        row.could_be_record |= refusal.could_be_record
        return self._takes_line(row, now_ms)

    def groups(self, now_ms: int, *, with_peers: bool) -> list[RefusedGroup]:
        """Of what could have been records in the last hour, by reason and maker; peers in the order
        in which they came."""
        found: dict[tuple[str, str], list[tuple[str, _Row]]] = {}
        for (reason, maker, peer), row in self._rows.items():
            if row.could_be_record and now_ms - row.last_ms <= HOUR_MS:
                found.setdefault((reason, maker), []).append((peer, row))
        return [
            _group(reason, maker, rows, now_ms, with_peers)
            for (reason, maker), rows in sorted(found.items())
        ]

    def peers(self, now_ms: int, limit: int) -> list[RefusedPeer]:
        """Of the last day, the newest first."""
        found: list[RefusedPeer] = []
        for (reason, maker, peer), row in reversed(self._rows.items()):
            if len(found) >= limit or now_ms - row.last_ms > DAY_MS:
                break
            found.append(
                RefusedPeer(
                    reason=reason, maker=maker, peer=peer, requests=row.requests,
                    first_ms=row.first_ms, last_ms=row.last_ms, request=row.request,
                )
            )  # fmt: skip
        return found

    def _takes_line(self, row: _Row, now_ms: int) -> bool:
        if now_ms - row.line_ms < LINE_EVERY_MS:
            return False
        minute = now_ms // MINUTE_MS
        if minute != self._minute:
            self._minute, self._lines = minute, 0
        if self._lines >= MAX_LINES:
            return False
        self._lines += 1
        row.line_ms = now_ms
        return True


def _group(
    reason: str, maker: str, rows: Iterable[tuple[str, _Row]], now_ms: int, with_peers: bool
) -> RefusedGroup:
    ordered = sorted(rows, key=lambda one: one[1].first_ms)
    last_ms = max(row.last_ms for _, row in ordered)
    return RefusedGroup(
        reason=reason,
        maker=maker,
        requests=sum(row.requests for _, row in ordered),
        peers=len(ordered),
        idle_s=max(0, now_ms - last_ms) / 1000,
        first_peers=[peer for peer, _ in ordered[:FIRST_PEERS]] if with_peers else [],
    )


class RetainedBytes:
    """How much of refused requests is kept: so many bytes an hour, of a peer and of all."""

    def __init__(self) -> None:
        self._hour = 0
        self._of_peer: dict[str, int] = {}
        self._bytes = self._requests = 0

    def reserve(self, peer: str, size: int, now_ms: int) -> bool:
        """Whether so many bytes of this peer may still be kept in this hour; they count then."""
        if now_ms // HOUR_MS != self._hour:
            self._hour, self._of_peer = now_ms // HOUR_MS, {}
            self._bytes = self._requests = 0
        used = self._of_peer.get(peer, 0)
        if (
            used + size > RETAINED_BYTES_OF_PEER
            or self._bytes + size > RETAINED_BYTES
            or self._requests >= MAX_RETAINED
        ):
            return False
        self._of_peer[peer] = used + size
        self._bytes, self._requests = self._bytes + size, self._requests + 1
        return True

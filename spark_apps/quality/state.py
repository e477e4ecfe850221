"""Counter messages of one batch. Pure.

In: messages of `meter.sent`. Out: the counters, the newest of each. Never: I/O, a clock.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bus.contracts.meters import QualityCell, Sent
from monitor.quality.model import CellKey

_DECODER = msgspec.json.Decoder(Sent)


def counters_of(values: Iterable[bytes | None]) -> list[Sent]:
    """The readable counters, of each only the largest number: they are cumulative in their
    epoch.
    """
    newest: dict[tuple[str, int, CellKey], Sent] = {}
    for value in values:
        try:
            sent = _DECODER.decode(value or b"")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue  # not ours
        counter = (sent.producer, sent.epoch, key_of(sent))
        if counter not in newest or newest[counter].sent < sent.sent:
            newest[counter] = sent
    return list(newest.values())


def key_of(cell: Sent | QualityCell) -> CellKey:
    """The device, server and capture minute something counts for."""
    return cell.kind, cell.camera_ip, cell.recognizer_ip, cell.minute_ms

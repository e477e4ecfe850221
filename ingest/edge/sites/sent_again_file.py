"""What this edge sent again in its last moves, in a file: a report of a switch asks for it later.

In: a move that is complete. Out: the newest of each site that was left. Never: a file that decides
anything: a damaged one says that nothing is known.
"""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from bus.contracts.sent_again import SentAgain
from bus.files.durable_file import replace_durably

log = logging.getLogger(__name__)

_NAME = "sent-again.json"
_DECODER = msgspec.json.Decoder(list[SentAgain])
_MAX_MOVES = 4
"""Of the newest moves, each away from another cluster."""


def write_sent_again(folder: Path, one: SentAgain) -> None:
    """It replaces the move before away from the same cluster. Raises OSError."""
    others = [each for each in _read_all(folder) if each.former_cluster_id != one.former_cluster_id]
    replace_durably(folder / _NAME, msgspec.json.encode([*others, one][-_MAX_MOVES:]))


def read_sent_again(folder: Path, former_cluster_id: str) -> SentAgain | None:
    """The newest move away from that cluster; None: there was none."""
    found = _read_all(folder)
    return next((one for one in found if one.former_cluster_id == former_cluster_id), None)


def _read_all(folder: Path) -> list[SentAgain]:
    """In the order of the moves."""
    path = folder / _NAME
    try:
        return _DECODER.decode(path.read_bytes())
    except FileNotFoundError:
        return []
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        log.error("%s is not readable, what was sent again is not known: %s", path, error)
        return []

"""The mirror's newest status in a file: for `mirror status`, which asks no process.

In: `MirrorStatus`. Out: the same, read. Never: half a file.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from bus.contracts.mirror_status import MirrorStatus
from bus.settings import SiteSettings

FRESH_MS = 10_000
"""A mirror writes every second; an older file is of one that has ended or stands still."""


class StatusUnavailable(Exception):
    """There is no status to read; the text says what to do."""


def status_path(site: SiteSettings) -> Path:
    """Where the mirror of this site writes it."""
    return site.data_path / "mirror" / "status.json"


def reconciliation_path(site: SiteSettings, *, is_back: bool) -> Path:
    """Where it keeps what was compared; on the way back that is about other brokers."""
    return site.data_path / "mirror" / f"{'back-' if is_back else ''}reconciliation.db"


def pictures_path(site: SiteSettings, *, is_back: bool) -> Path:
    """The same of which pictures are to be copied, and what was."""
    return site.data_path / "mirror" / f"{'back-' if is_back else ''}pictures.db"


def write_status(path: Path, status: MirrorStatus) -> None:
    """Replace the file in one step. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_bytes(msgspec.json.encode(status))
    os.replace(fresh, path)


def read_status(path: Path) -> MirrorStatus:
    """Raises StatusUnavailable."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=MirrorStatus)
    except FileNotFoundError:
        raise StatusUnavailable(
            f"no mirror has run here ({path} is missing); start it with: databus run mirror"
        ) from None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StatusUnavailable(f"{path} cannot be read: {error}") from None

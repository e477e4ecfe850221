"""What the edge of this machine says of its spool.

In: where it is. Out: a count of its status. Never: a wait, an error: an edge that is away says
nothing.
"""

from __future__ import annotations

from http.client import HTTPException

import msgspec

from bus.metrics.read_page import read_page
from deploy.settings.composed import Settings, edge_url

TIMEOUT_S = 3.0


def edge_backlog(settings: Settings) -> int | None:
    """Records in the edge's spool that the bus has not acknowledged."""
    return _count(settings, "backlog")


def edge_unreported(settings: Settings) -> int | None:
    """Records in it that `meter.arrived` does not tell of yet."""
    return _count(settings, "untold")


def _count(settings: Settings, name: str) -> int | None:
    try:
        url = f"{edge_url(settings)}/v1/status"
        page = read_page(url, TIMEOUT_S, settings.security.page_token)
        return int(msgspec.json.decode(page)[name])
    except (OSError, ValueError, KeyError, HTTPException, msgspec.MsgspecError):
        return None

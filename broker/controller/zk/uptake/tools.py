"""Nodes in which a tool leaves one request.

In: a path. Out: what is asked. Never: a request that makes no sense left standing; it would be read
again for ever.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from broker.controller.zk import znodes
from broker.controller.zk.load import (
    get_or_none,
)
from broker.controller.zk.port import (
    Delete,
)
from broker.controller.zk.term import Term

log = logging.getLogger("broker.controller.zk")

Found = TypeVar("Found")


async def read_tool(
    term: Term, path: str, decode: Callable[[bytes], Found]
) -> Found | None:
    """What a tool wrote, None if there is no node; the node's creation is watched."""
    if await term.office.session.exists(path, watch=True) is None:
        return None
    found = await get_or_none(term.office.session, path, watch=True)
    if found is None:
        return None
    try:
        return decode(found[0])
    except znodes.ZnodeError as error:
        log.error("refused and removed: %s", error)
        await term.write((Delete(path),))
        return None

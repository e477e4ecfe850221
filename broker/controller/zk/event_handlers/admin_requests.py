"""Nodes in which a tool leaves one request. A malformed request is removed; it would otherwise be
read again for ever."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from broker.controller.zk import znodes
from broker.controller.zk.controller_context import ControllerContext
from broker.controller.zk.port import (
    Delete,
)
from broker.controller.zk.state_reader import (
    get_or_none,
)

log = logging.getLogger("broker.controller.zk")

Found = TypeVar("Found")


async def read_admin_request(
    context: ControllerContext, path: str, decode: Callable[[bytes], Found]
) -> Found | None:
    """The tool's request, None if there is no node; watches the node's creation."""
    if await context.deps.session.exists(path, watch=True) is None:
        return None
    found = await get_or_none(context.deps.session, path, watch=True)
    if found is None:
        return None
    try:
        return decode(found[0])
    except znodes.ZnodeError as error:
        log.error("refused and removed: %s", error)
        await context.write((Delete(path),))
        return None

"""`/isr_change_notification`: state nodes that were written by another broker."""

from __future__ import annotations

from broker.controller.zk import znodes
from broker.controller.zk.controller_context import ControllerContext
from broker.controller.zk.port import (
    Delete,
)
from broker.controller.zk.state_reader import (
    children_or_none,
)


async def on_isr_change(context: ControllerContext) -> None:
    """`/isr_change_notification`: leaders of before 2.7 write state nodes themselves and report it
    here; everything is read again and the notifications are removed."""
    names = await children_or_none(context.deps.session, znodes.ISR_CHANGES, watch=True)
    if not names:
        return
    await context.reload()
    await context.write(Delete(f"{znodes.ISR_CHANGES}/{name}") for name in names)

"""`/isr_change_notification`: state nodes that somebody else wrote.

In: a term. Out: everything read anew. Never: a note that stays after it was taken.
"""

from __future__ import annotations

from broker.controller.zk import znodes
from broker.controller.zk.load import (
    children_or_none,
)
from broker.controller.zk.port import (
    Delete,
)
from broker.controller.zk.term import Term


async def take_isr_changes(term: Term) -> None:
    """`/isr_change_notification`: leaders of before 2.7 wrote state nodes themselves and say so
    here; everything is read anew and the notes are removed."""
    names = await children_or_none(term.office.session, znodes.ISR_CHANGES, watch=True)
    if not names:
        return
    await term.reload()
    await term.write(Delete(f"{znodes.ISR_CHANGES}/{name}") for name in names)

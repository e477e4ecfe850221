"""`/admin/reassign_partitions`: what a tool wants moved, and what of it is still open.

In: a term. Out: its transactions, the node rewritten. Never: a move judged here.
"""

from __future__ import annotations

import logging

from broker.controller.decisions.reassignment import Move, alter_reassignments
from broker.controller.zk import tool_znodes, znodes
from broker.controller.zk.port import (
    Delete,
    SetData,
)
from broker.controller.zk.term import Term
from broker.controller.zk.uptake.tools import read_tool
from broker.metadata.image import MetadataImage

log = logging.getLogger("broker.controller.zk")


async def take_reassignment(term: Term) -> None:
    """`/admin/reassign_partitions`: begin what is asked and not begun (C-RA-01..09)."""
    wanted = await read_tool(term, znodes.REASSIGN, tool_znodes.decode_reassignment)
    if wanted is None:
        term.asked_moves.clear()
        return
    moves = [
        Move(topic, index, replicas)
        for (topic, index), replicas in wanted.items()
        if (topic, index) not in term.asked_moves
    ]
    if moves:
        results = await term.transact(
            lambda image: alter_reassignments(image, term.office.rules(), moves)
        )
        for result in results:
            if result.error:
                log.error("no reassignment of %s-%d: %s", result.topic, result.index,
                          result.message or result.error.name)
    term.asked_moves = dict.fromkeys(wanted)
    await finish_reassignments(term, wanted)


async def finish_reassignments(
    term: Term, wanted: dict[tuple[str, int], tuple[int, ...]] | None = None
) -> None:
    """What is done, or failed, leaves the node; an empty node is removed (G-07)."""
    if not term.asked_moves:
        return
    open_moves = {one: None for one in term.asked_moves if _is_moving(term.image, *one)}
    if wanted is None:
        if len(open_moves) == len(term.asked_moves):
            return
        wanted = await read_tool(term, znodes.REASSIGN, tool_znodes.decode_reassignment) or {}
    term.asked_moves = open_moves
    left = {one: replicas for one, replicas in wanted.items() if one in open_moves}
    if not left:
        await term.write((Delete(znodes.REASSIGN),))
    elif len(left) < len(wanted):
        await term.write((SetData(znodes.REASSIGN, tool_znodes.encode_reassignment(left)),))


def _is_moving(image: MetadataImage, topic: str, index: int) -> bool:
    held = image.topics.get(topic)
    return (
        held is not None and index < len(held.partitions) and held.partitions[index].is_reassigning
    )

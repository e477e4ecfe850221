"""How far a follower cuts its log back when the leader's history differs (KIP-101, 279, 595).

In: what the leader says of the epoch it was asked for, and our own epochs. Out: an offset. Never: a
cut to one's own high watermark, which is what lost acknowledged records before KIP-101.
"""

from __future__ import annotations

from broker.log.log import Log

UNDEFINED = -1


def cut_at(log: Log, epoch: int, end_offset: int) -> int:
    """Where to cut: the leader has ``epoch`` up to ``end_offset``, no younger one that we know.

    If we have that epoch too, both agree up to the earlier of the two ends. If not, the end of our
    next older epoch is a step on the way: the next fetch names that, and the leader answers again.
    """
    ours = log.end_offset_for_epoch(epoch)
    if ours.end_offset == UNDEFINED:
        return min(end_offset, log.end_offset)
    if ours.epoch != epoch:
        return min(ours.end_offset, log.end_offset)
    return min(ours.end_offset, end_offset, log.end_offset)

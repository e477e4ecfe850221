"""Where the work of a record is done; of the three ways a run tries some, drawn by its seed."""

from __future__ import annotations

import os
import random

WAYS = ("driver", "executors", "executors into HBase")


def drawn_ways(count: int) -> list[str]:
    """So many of the three: the same for the same commit, others for the next."""
    dice = random.Random(f"{os.environ.get('DATABUS_SEED', '0')}:ways")
    return sorted(dice.sample(WAYS, count))

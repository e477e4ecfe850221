"""How an order is done, wherever: one pass, over a disk.

In: a line of JSON, a disk. Out: lines of JSON, a group or the end of the pass each. Never: a file
renamed, or removed that is not its own. The real child and the simulated one run this function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from broker.disk.port import Disk
from broker.log.cleaner.model import from_json, to_json
from broker.log.cleaner.order import CleaningOrder
from broker.log.cleaner.passes import run_pass


def run_order(disk: Disk, request: bytes, pause: Callable[[int], None]) -> Iterator[bytes]:
    """The reports of a pass. CleanerMessageError: the request is none; DiskError."""
    order = from_json(request, CleaningOrder)
    for report in run_pass(disk, order.work, pause, order.writer):
        yield to_json(report)

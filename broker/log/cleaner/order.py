"""What the child process is asked to do, as it goes over the pipe.

In: a pass. Out: JSON. Never: how a pass is run (``order_runner``): what that imports, a broker does
not need in its memory.
"""

from __future__ import annotations

from msgspec import Struct

from broker.log.cleaner.model import CleaningPass


class CleaningOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """A pass, and the name under which it writes, which no other one has."""

    writer: str
    work: CleaningPass

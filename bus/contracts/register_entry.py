"""`control.register`: one message for each entry of the deployment register that changes.

In/out: frozen structs, JSON with English keys. Of a key's messages the one of the greatest version
is the entry; `op` is explicit because a tombstone parses to null. Never: files, a whole register
(that is `register`).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from bus.contracts.register import Checkpoint, Device, District, Road
from bus.contracts.version_floor import FLOOR_KEY

EntryKind = Literal["site", "district", "checkpoint", "device", "road"]


class RegisterEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One entry. Its `kind` says which of the fields holds it; none where it is removed.

    `id` is the district's, the checkpoint's, the device's address, the road's name; of the site,
    whose only entry is its name, it is empty. `op` `floor` is no entry: none up to its version is
    accepted any more.
    """

    kind: EntryKind
    id: str
    op: Literal["put", "remove", "floor"] = "put"
    version: int = 0  # epoch ms of the decision; 0, of an earlier version: the record's time
    name: str = ""  # of the site
    district: District | None = None
    checkpoint: Checkpoint | None = None
    device: Device | None = None
    road: Road | None = None
    author: str = ""

    @property
    def key(self) -> str:
        """Of the message."""
        return FLOOR_KEY if self.op == "floor" else f"{self.kind}/{self.id}"

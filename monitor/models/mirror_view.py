"""What the console makes of the mirror's report: why a picture is absent, what its API says. Pure.

In: structs of `bus.contracts.mirror_status`. Out: a sentence; fields. Never: an import of
`dr_mirror`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bus.contracts.mirror_status import MirrorReport, PictureStatus

_LEFT_OUT = {
    "status": (
        "buffered_bytes", "rebuilt_batches", "groups_copied_ms", "state", "confirmed", "acls",
    ),
    "partitions": (
        "source_end", "target_end", "copied_records", "copied_bytes", "source_heard_ms",
    ),
    "proof": ("compared_blocks", "read_bytes"),
    "pictures": ("present",),
    "curve": ("lag_bytes",),
}  # fmt: skip
"""What `/api/mirror` does not give out: counts that metrics have, and what commands show."""


def api_view(report: MirrorReport) -> dict[str, Any]:
    """The report as `/api/mirror` answers it."""
    found: dict[str, Any] = msgspec.to_builtins(report)
    status = found["status"]
    left_out = [
        ("status", status), ("proof", status["proof"]), ("pictures", status["pictures"]),
        *(("partitions", one) for one in status["partitions"]),
        *(("curve", one) for one in found["curve"]),
    ]  # fmt: skip
    for part, fields in left_out:
        for name in _LEFT_OUT[part]:
            del fields[name]
    return found


def why_absent(pictures: PictureStatus, name: str) -> str:
    """Why the site that copies from the other one has no picture of that name."""
    if pictures.policy == "none":
        return "the mirror copies no pictures ([mirror] pictures)"
    if name in pictures.other:
        return "the mirror found another picture of that name at this site"
    known = [one for one in pictures.shown_given_up if one.startswith(f"{name}: ")]
    if known:
        return f"the mirror gave it up: {known[0].removeprefix(f'{name}: ')}"
    if pictures.problem:
        return f"the mirror copies no picture now: {pictures.problem}"
    which = "of alarms only" if pictures.policy == "hits" else "of all records"
    return f"the mirror copies pictures {which}; {pictures.waiting} are not here yet"

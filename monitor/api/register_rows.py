"""The register as rows of a table (pure): districts, checkpoints and devices, each with its place.

In: a register, a filter. Out: plain dicts with English keys. Never: HTTP, languages of the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bus.contracts.register import Checkpoint, Register

DIGITS = 6  # of a degree: ten centimetres
KINDS_OF_PLACE = ("device", "checkpoint", "district")


def place_rows(register: Register, kind: str = "", text: str = "") -> list[dict[str, object]]:
    """Those of a kind (empty: all) in which the text stands, however it is written."""
    wanted = text.strip().casefold()
    return [
        row
        for row in _rows(register)
        if kind in ("", row["place_kind"])
        and (not wanted or any(wanted in str(value).casefold() for value in row.values()))
    ]


def _rows(register: Register) -> Iterator[dict[str, Any]]:
    names = {one.district_id: one for one in register.districts}
    for device in register.devices:
        checkpoint = register.checkpoint_by_id.get(device.checkpoint_id)
        yield {
            **_row("device", device.camera_ip, device.checkpoint_id, checkpoint),
            "kind": device.kind,
            "recognizer_ip": device.recognizer_ip,
        }
    for one in register.checkpoints:
        yield _row("checkpoint", one.checkpoint_id, one.checkpoint_id, one)
    for district in register.districts:
        yield {
            **_row("district", district.district_id, "", None),
            "district_id": district.district_id,
            "checkpoint": names[district.district_id].name,
            "checkpoint_en": names[district.district_id].name_en,
        }


def _row(
    kind: str, name: str, checkpoint_id: str, checkpoint: Checkpoint | None
) -> dict[str, object]:
    return {
        "key": f"{kind}/{name}",
        "place_kind": kind,
        "entry": name,
        "checkpoint": checkpoint.name if checkpoint else checkpoint_id,
        "checkpoint_en": checkpoint.name_en if checkpoint else checkpoint_id,
        "district_id": checkpoint.district_id if checkpoint else "",
        "latitude": round(checkpoint.latitude, DIGITS) if checkpoint else None,
        "longitude": round(checkpoint.longitude, DIGITS) if checkpoint else None,
        "kind": "",
        "recognizer_ip": "",
    }

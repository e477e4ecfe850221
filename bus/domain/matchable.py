"""Which attributes a rule may name, per kind of data. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from bus.contracts.keys import PLACE_AND_TIME
from bus.domain.kinds import KEYS_OF_KIND, WIRE_KEYS

_HIDDEN = {
    "captured_at",
    "stored_at",
    "sender_record_id",
    "device_sequence",
    "face_feature",
    "feature_model",
    "plate_confidence",
    "plate_character_confidences",
    "plate_candidates",
}


def _matchable(table: Mapping[str, str]) -> tuple[str, ...]:
    own = [a for a in table.values() if a not in _HIDDEN and not a.endswith("_url")]
    places = set(PLACE_AND_TIME.values())
    return tuple(sorted(own, key=lambda a: a in places))


# What a rule may ask for, per kind: what the device says of the target, then where it was seen.
MATCHABLE: dict[str, tuple[str, ...]] = {kind: _matchable(KEYS_OF_KIND[kind]) for kind in WIRE_KEYS}

"""Values as rules compare them.

In: what devices and operators write. Out: one form per value. Never: I/O.
Spaces, full-width letters and case do not matter (Q-0: the book prints `浙 AWL999` once). A value
that says "not read" is no value. A plate's form is that of the store and the
partition key: `bus.domain.plates`; one of which it is not known whether a hyphen separates stands
for each plate that it may be, and one of which a character was not read for none: only a rule that
is about readings (`alarm.rules.fuzzy_plates`) takes it for a plate.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache

from bus.contracts.keys import NO_PLATE, UNREADABLE
from bus.domain.ignorable import is_ignorable
from bus.domain.kinds import WIRE_KEYS
from bus.domain.plate_candidates import candidates_text
from bus.domain.plates import plate_form, vehicles_of, wanted_vehicle
from bus.domain.reading_price import confidences_text

PLATE = "plate_number"
CONFIDENCES = "plate_character_confidences"
CANDIDATES = "plate_candidates"
"""What a reader says of each character of the plate, and which plates it holds possible beside the
one that it wrote; no rule compares either by itself."""

FEATURE, FEATURE_MODEL = "face_feature", "feature_model"
"""Of a face: base64, which is compared by `bus.domain.feature_models` only, and whose it is."""

CHECKPOINT, DEVICE = "checkpoint_id", "camera_ip"
"""By which the register knows where a record was made."""

DIRECTION, LANE = "direction", "lane_id"
"""Where a vehicle goes to, and on which lane."""
_numbered_lane = re.compile(
    r"(?:第|LANE|车道)?0*([0-9]{1,4})(?:\.0+)?(?:号车道|车道|号|道)?", re.ASCII
).fullmatch

_AS_THEY_ARE = frozenset({CONFIDENCES, CANDIDATES})
_NOT_READ = frozenset({"", UNREADABLE, NO_PLATE})


@lru_cache(maxsize=4_096)  # features take few values
def normal(value: str) -> str:
    """The form in which values are compared; empty when the value says that nothing was read."""
    text = "".join(unicodedata.normalize("NFKC", value).split()).upper()
    folded = text if text.isascii() and text.isprintable() else "".join(filter(_is_visible, text))
    return "" if folded in _NOT_READ else folded


def _is_visible(character: str) -> bool:
    return not is_ignorable(character) and unicodedata.category(character) not in ("Cc", "Cs")


@lru_cache(maxsize=1_024)
def lane_form(value: str) -> str:
    """`1` of `01`, `1.0`, `第1车道`, `lane 1`; of another name of a lane its comparable form."""
    form = normal(value)
    found = _numbered_lane(form)
    return found[1] if found else form


def normal_as(attribute: str, value: str) -> str:
    """The comparable form of the value of one attribute of a record."""
    if attribute == PLATE:
        return plate_form(value)
    if attribute == LANE:
        return lane_form(value)
    if attribute == FEATURE:
        text = value.strip()
        return "" if text in _NOT_READ else text
    return value if attribute in _AS_THEY_ARE else normal(value)


def wanted(attribute: str, value: str) -> str:
    """The comparable form of a value that a rule accepts; empty for what no record has."""
    if attribute == LANE:
        return lane_form(value)
    return wanted_vehicle(value) if attribute == PLATE else normal(value)


def values_of(attribute: str, form: str) -> tuple[str, ...]:
    """What a rule may accept of a record's comparable value: one, or each that a plate may be."""
    return vehicles_of(form) if attribute == PLATE else (form,)


def attributes_of(kind: str, message: Mapping[str, object]) -> dict[str, str]:
    """The comparable attributes of a record: English name -> value, only those that were read."""
    keys = WIRE_KEYS.get(kind, {})
    return attributes_from((name, message.get(key)) for name, key in keys.items())


def attributes_from(values: Iterable[tuple[str, object]]) -> dict[str, str]:
    """The comparable ones of some (English name, value as the device wrote it)."""
    found = {}
    for name, raw in values:
        if raw is None:  # as most are of what rules may ask for
            continue
        if name == CANDIDATES:
            raw = candidates_text(raw)
        elif name == CONFIDENCES and isinstance(raw, list):
            raw = confidences_text(raw)
        if not isinstance(raw, str):
            if not isinstance(raw, int | float) or isinstance(raw, bool):
                continue
            raw = str(raw)
        value = normal_as(name, raw)
        if value:
            found[name] = value
    return found

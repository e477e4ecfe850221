"""Stored faces that resemble one: what is asked, and what comes of it, a piece at a time. Pure.

In: a record as it is stored, the models of a site. Out: the feature that it has; the best of the
pieces by now. Never: features of two models beside each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

import msgspec

from bus.contracts.feature_models import FeatureModel
from bus.contracts.plate_lists import GALLERY_KIND
from bus.domain.command_error import CommandError
from bus.domain.feature_models import Models, feature_of, known_model
from bus.domain.kinds import WIRE_KEYS
from bus.domain.rule_values import FEATURE, FEATURE_MODEL, attributes_from, normal

Row = TypeVar("Row")


class FaceQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Of face records captured in [from_ms, until_ms) the next piece, newest first; 0 is no bound.
    `model`: with the threshold of a hit; `record_id`: whose feature it is, which is no hit of its
    own; `cursor`: that of the piece before, empty: from the newest on."""

    feature: bytes
    model: FeatureModel
    from_ms: int = 0
    until_ms: int = 0
    record_id: str = ""
    cursor: str = ""


def check_subject(record: str, gallery: str, entry: str) -> None:
    """Whose face is looked for: a record's, or that of a gallery's entry. Raises `CommandError`."""
    of_gallery = (bool(gallery), bool(entry))
    if of_gallery != ((False, False) if record else (True, True)):
        raise CommandError("record", "give either a record, or a list and its entry", "no_face")


class FaceHit(NamedTuple, Generic[Row]):
    """A stored record and its score by the model's measure, to six decimals."""

    row: Row
    score: float


class FacePiece(NamedTuple, Generic[Row]):
    """`hits`: newest first; `read`: records looked at, `compared`: those of the model; `since_ms`:
    when the last of them was captured. An empty `cursor` ends the search."""

    hits: Sequence[FaceHit[Row]]
    read: int
    compared: int
    since_ms: int
    cursor: str


class BestFaces(Generic[Row]):
    """What the pieces say by now. `since_ms`: all records captured later were looked at; `count`:
    hits, of which the `most` best are kept."""

    def __init__(self, model: FeatureModel, most: int) -> None:
        self.read = self.compared = self.count = self.since_ms = 0
        self.hits: list[FaceHit[Row]] = []
        self._model = model
        self._most = most

    def add(self, piece: FacePiece[Row]) -> None:
        """The next one."""
        self.read += piece.read
        self.compared += piece.compared
        self.count += len(piece.hits)
        self.since_ms = piece.since_ms or self.since_ms
        sign = 1 if self._model.measure == "euclid" else -1
        ranked = sorted([*self.hits, *piece.hits], key=lambda hit: sign * hit.score)
        self.hits = ranked[: self._most]  # of equal scores the newer capture first


class _FaceBody(msgspec.Struct, rename=WIRE_KEYS[GALLERY_KIND].get):
    """Of a record in JSON what is compared."""

    face_feature: object = None
    feature_model: object = None


_decode = msgspec.json.Decoder(_FaceBody).decode


def face_attributes(body: bytes) -> dict[str, str]:
    """Feature and model of a record that is stored as JSON, as rules compare them."""
    found = _face_body(body)
    return attributes_from(
        ((FEATURE, found.face_feature), (FEATURE_MODEL, found.feature_model))
    )


def _face_body(body: bytes) -> _FaceBody:
    try:
        return _decode(body)
    except (msgspec.DecodeError, RecursionError):
        return _FaceBody()


def feature_in(body: bytes, model: FeatureModel) -> bytes | None:
    """The feature of a stored record, where it has one of this model."""
    attributes = face_attributes(body)
    if attributes.get(FEATURE_MODEL) != normal(model.name):
        return None
    return feature_of(attributes.get(FEATURE, ""), model)


def face_in(body: bytes, models: Models) -> tuple[bytes, FeatureModel]:
    """The feature of a stored record and the model that it is of. Raises `CommandError`."""
    attributes = face_attributes(body)
    if FEATURE not in attributes or FEATURE_MODEL not in attributes:
        raise CommandError(
            "record", "this record has no feature of a face, or does not say of which model it is",
            "no_feature",
        )  # fmt: skip
    model = known_model(models, str(_face_body(body).feature_model))
    feature = feature_of(attributes[FEATURE], model)
    if feature is None:
        raise CommandError(
            "record", f"what this record has is no feature of {model.name}", "feature"
        )
    return feature, model

"""The models whose features can be compared, and the reading of a feature. Pure.

In: settings, texts as devices write them. Out: a table by name; a feature's bytes, or None. Never:
a guess: features of a model that is not in the table, or of another length than its own, are
compared with nothing.
"""

from __future__ import annotations

import binascii
import math
import struct
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

import msgspec

from bus.contracts.feature_models import FeatureModel, Measure
from bus.domain.command_error import CommandError
from bus.domain.rule_values import normal

MAX_DIMENSIONS = 1_024  # 100,000 features of it are 400 MB, and fit the chunks of a list
MAX_NORM = 1e6
"""Products of two features stay far from the end of 32-bit floats."""
Models = Mapping[str, FeatureModel]
"""By name in comparable form."""
_KNOWN = (
    FeatureModel(name="sface", dimensions=128, measure="cosine", threshold=0.363),
    FeatureModel(
        name="dlib_face_recognition_resnet_model_v1", dimensions=128, measure="euclid",
        threshold=0.6,
    ),
    FeatureModel(name="city-face-128/1", dimensions=128, measure="cosine", threshold=0.6),
)  # fmt: skip
"""Thresholds as the authors publish them, each for whether two pictures show one person, by pairs
of the data set LFW. `sface`: OpenCV's tutorial "DNN-based Face Detection And Recognition" (99.60 %;
a distance of 1.128 between features of length 1 is the same threshold). dlib: its example
`dnn_face_recognition_ex.cpp` (99.38 %). A gallery compares a capture with many people: the more it
has, the more of these captures resemble somebody by chance. The last one is the simulator's, whose
captures of one face have 0.85 and of two people rarely 0.4."""


class FeatureModelSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`databus.toml` [features.models."NAME"]."""

    dimensions: Annotated[int, msgspec.Meta(ge=2, le=MAX_DIMENSIONS)]
    threshold: float
    measure: Measure = "cosine"


class FeatureSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`databus.toml` [features]: models that are compared beside those that are known; one that is
    known may be given another threshold."""

    models: dict[str, FeatureModelSettings] = {}

    def __post_init__(self) -> None:
        for name, one in self.models.items():
            if not normal(name):
                raise ValueError(f"models: {name!r} is no name")
            if not is_threshold(one.threshold, one.measure):
                raise ValueError(f"models: no score of {name!r} can be near {one.threshold:g}")

    def table(self) -> Models:
        """All models of the site."""
        found = {normal(one.name): one for one in _KNOWN}
        for name, one in self.models.items():
            found[normal(name)] = FeatureModel(
                name=name, dimensions=one.dimensions, measure=one.measure, threshold=one.threshold
            )
        return MappingProxyType(found)


def known_model(models: Models, name: str) -> FeatureModel:
    """The model of that name. Raises `CommandError`, which names those that are known."""
    found = models.get(normal(name))
    if found is None:
        known = ", ".join(sorted(one.name for one in models.values()))
        raise CommandError(
            "model",
            f"{name[:64]!r} is no such model; there are: {known}; others stand in databus.toml"
            " under [features]", "unknown_model",
        )  # fmt: skip
    return found


def is_threshold(threshold: float, measure: Measure) -> bool:
    """Whether some scores are above it and some below."""
    if not math.isfinite(threshold):
        return False
    return threshold >= 0 if measure == "euclid" else measure != "cosine" or abs(threshold) <= 1


def with_threshold(model: FeatureModel, threshold: float | None) -> FeatureModel:
    """None: the model's own. Raises `CommandError`."""
    if threshold is None:
        return model
    if not is_threshold(threshold, model.measure):
        raise CommandError(
            "threshold", f"{model.name} is compared by {model.measure}: no score can be near"
            f" {threshold:g}", "threshold",
        )  # fmt: skip
    return msgspec.structs.replace(model, threshold=threshold)


def feature_of(text: str, model: FeatureModel) -> bytes | None:
    """Base64 of little-endian 32-bit floats, as records have it; None of what is no feature of this
    model."""
    try:
        found = binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        return None
    return found if is_feature(found, model) else None


def is_feature(value: bytes, model: FeatureModel) -> bool:
    """Whether these bytes can be compared: as many numbers as the model has, finite, not all
    zero."""
    if len(value) != model.feature_bytes:
        return False
    norm = math.hypot(*struct.unpack(f"<{model.dimensions}f", value))
    return 0 < norm <= MAX_NORM  # NaN and infinity are neither

"""How features of one model (`特征模型`) are compared: what a gallery of faces says of its own.

In/out: a frozen struct. Never: which models there are (`bus.domain.feature_models`).
"""

from __future__ import annotations

from typing import Literal

import msgspec

Measure = Literal["cosine", "inner product", "euclid"]
MEASURES: tuple[Measure, ...] = ("cosine", "inner product", "euclid")


class FeatureModel(msgspec.Struct, frozen=True, kw_only=True):
    """`name`: as records have it; `dimensions`: 32-bit floats of a feature. `threshold`: of
    `cosine` and `inner product` the least score of a hit, of `euclid` the largest distance."""

    name: str
    dimensions: int
    measure: Measure
    threshold: float

    @property
    def feature_bytes(self) -> int:
        """Of one feature."""
        return 4 * self.dimensions

    def is_hit(self, score: float, threshold: float | None = None) -> bool:
        """Whether a score is near enough; without a threshold, by the model's own."""
        limit = self.threshold if threshold is None else threshold
        return score <= limit if self.measure == "euclid" else score >= limit

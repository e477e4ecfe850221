"""The targets of a film, picture by picture: what a model sees, as far as something moves there.

In: the pictures of a film, in their order; a model, or none. Out: boxes and the colours of each.
Never: an object that a model takes for a person in every picture, as a traffic cone: a box in which
nothing moves counts half, which begins no track.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from ingest.video.boxes import Detection
from ingest.video.detection.colours import Colours, colours_of
from ingest.video.detection.motion import Motion
from ingest.video.detection.port import Detector, Image

STILL_SHARE = 0.05  # of a box; what moves less stands still
STILL_SCORE = 0.5  # so much of its score is left


class TargetSighting(NamedTuple):
    """A box of one picture, and its colours where it holds any."""

    detection: Detection
    colours: Colours | None


class TargetDetector:
    """What is kept of one film. Without a model whatever moves is a target, and nothing says what
    it is."""

    def __init__(self, model: Detector | None) -> None:
        self._model = model
        self._motion = Motion()

    def find(self, image: Image) -> list[TargetSighting]:
        """The boxes of the next picture."""
        self._motion.observe(image)
        if self._model is None:
            found = self._motion.movers()
        else:
            found = [self._weighed(one) for one in self._model.find(image)]
        return [TargetSighting(one, colours_of(image, one.box)) for one in found]

    def _weighed(self, found: Detection) -> Detection:
        share = self._motion.share(found.box)
        if share is None or share >= STILL_SHARE:
            return found
        return replace(found, score=found.score * STILL_SCORE)

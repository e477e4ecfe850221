"""A target's way through a film: where it was seen, and where it was best. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ingest.video.boxes import Detection, TargetClass


@dataclass(frozen=True, slots=True)
class Sighting:
    """Where a track was at one moment."""

    at_ms: int
    detection: Detection


@dataclass(slots=True)
class Track:
    """Invariant: `sightings` is not empty and its times grow."""

    number: int
    sightings: list[Sighting]

    @property
    def first_ms(self) -> int:
        """When it was first seen."""
        return self.sightings[0].at_ms

    @property
    def last_ms(self) -> int:
        """When it was last seen."""
        return self.sightings[-1].at_ms

    @property
    def kind(self) -> tuple[TargetClass, float]:
        """What it is by most of its looks, each as sure as it is; and the share of all looks that
        say so, as sure as they are."""
        sums: dict[TargetClass, float] = {}
        for sighting in self.sightings:
            one = sighting.detection
            sums[one.kind] = sums.get(one.kind, 0.0) + one.score
        name = max(sums, key=lambda kind: sums[kind])
        return name, sums[name] / len(self.sightings)

    @property
    def best(self) -> Sighting:
        """The sighting to be shown: of the surest; the largest where nothing was sure."""
        return max(self.sightings, key=_how_well)

    def best_since(self, at_ms: int) -> Sighting | None:
        """As `best`, of the sightings from then on; None where there are none."""
        since = (s for s in self.sightings if s.at_ms >= at_ms)
        return max(since, key=_how_well, default=None)

    def add(self, at_ms: int, detection: Detection) -> None:
        """It was seen again."""
        self.sightings.append(Sighting(at_ms, detection))


def _how_well(sighting: Sighting) -> tuple[float, float]:
    return sighting.detection.score, sighting.detection.box.area

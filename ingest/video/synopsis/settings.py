"""How a synopsis is made."""

from __future__ import annotations

import msgspec


class SynopsisSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`density`: the share of the picture that targets cover on average, from which the length
    follows where none is asked for; it never exceeds `most_share` of the film."""

    length_s: float | None = None
    density: float = 0.08
    most_share: float = 0.12
    least_track_s: float = 2.0
    speed: int = 2  # of so many frames of a target one is shown
    order: float = 0.2  # 0: in any order; 1: who came first is shown first; it costs overlaps
    sweeps: int = 6  # of annealing, after the greedy placement; 0: none
    seed: int = 1
    width_px: int = 1280  # of the synopsis, at most
    background_s: float = 10.0  # between two moments of the background, at least
    backgrounds: int = 120  # moments of the background, at most: a longer film has fewer a minute
    patches_bytes: int = 8 << 30  # of cut-out targets on disk, at most

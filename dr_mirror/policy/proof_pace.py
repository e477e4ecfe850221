"""How often records and pictures of both sites are compared. Pure.

In: the settings. Out: the same in milliseconds. Never: a comparison.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProofPace:
    """What the settings say, in milliseconds."""

    recent_ms: int
    interval_ms: int
    scrub_ms: int

"""Rules that some units see: what the decider lets whom do, and what it says of what is hidden."""

from __future__ import annotations

"""The directions in which things travel, as rules and the register name them."""

from __future__ import annotations

from typing import Literal

Heading = Literal[
    "north", "north-east", "east", "south-east", "south", "south-west", "west", "north-west"
]
"""Where a vehicle goes to, clockwise from north, 45 degrees each."""

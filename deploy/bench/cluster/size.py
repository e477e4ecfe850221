"""How much a run of the cluster's bench writes, waits and repeats.

In: the words of the verb. Out: a frozen value. Never: a small run in the kept figures.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from deploy.errors import OperatorError

_UNITS = {"MB": 1_000_000, "GB": 1_000_000_000}


@dataclass(frozen=True, slots=True)
class Size:
    """`small` is for trying the bench itself."""

    log_bytes: int = 6_000_000_000
    seconds: float = 5.0
    terms: int = 10
    partitions: int = 1_000
    many_topics: int = 10  # of `partitions` each, for the metadata answer
    small: bool = False


SMALL = Size(log_bytes=100_000_000, seconds=1.0, terms=2, partitions=50, many_topics=2, small=True)


def parse_size(text: str) -> int:
    """`6GB`, `500MB`: bytes of log per broker."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(MB|GB)", text.strip().upper())
    if found is None:
        raise OperatorError(f"--size {text}: write it as 6GB or 500MB")
    return int(float(found.group(1)) * _UNITS[found.group(2)])

"""Members of a long matrix that one run tries, drawn by its seed: the same for the same commit.

In: a name and members. Out: some of them; all where every member is wanted
(`./databus test --every-member`). Never: a member that no seed draws.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import TypeVar

import pytest

from deploy.run_tests import EVERY_MEMBER_VARIABLE

Member = TypeVar("Member")
MARKER = "rotates"


def every_member_is_wanted() -> bool:
    return os.environ.get(EVERY_MEMBER_VARIABLE) == "all"


def randomness(name: str) -> random.Random:
    """Random numbers of this name only."""
    return random.Random(f"{os.environ.get('DATABUS_SEED', '0')}:{name}")


def drawn(name: str, members: Sequence[Member], count: int = 1) -> list[Member]:
    """So many of the members, in their order; `name` keeps one matrix's draw apart from another's."""
    if every_member_is_wanted():
        return list(members)
    chosen = sorted(randomness(name).sample(range(len(members)), count))
    return [members[place] for place in chosen]


def skip_what_is_not_drawn(items: Sequence[pytest.Item]) -> None:
    """Of the collected tests marked `rotates(group)` one a group runs; the others are skipped, and
    each says which one runs."""
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        mark = item.get_closest_marker(MARKER)
        if mark is not None:
            groups.setdefault(mark.args[0], []).append(item)
    for name, members in groups.items():
        running = drawn(name, members)
        for item in members:
            if item not in running:
                names = ", ".join(one.name for one in running)
                item.add_marker(pytest.mark.skip(reason=f"{name}: this run's turn is {names}"))

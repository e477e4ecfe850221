"""What one run tries of long matrices and long stories: by turn, the same for the same commit.

In: a name and members, or collected tests. Out: some of them; all where every member is wanted
(`./databus test --every-member`). A run of all tests has a tenth of the stories, and besides those of
packages that changed lately, the longest not drawn before the others. Never: a member that ten commits
in a row leave out.
"""

from __future__ import annotations

import itertools
import math
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pytest

from deploy.test_runs.run import EVERY_MEMBER_VARIABLE
from deploy.test_runs.times import read_times
from deploy.test_runs.turn import CHANGED_VARIABLE, TURN_VARIABLE, TURNS

Member = TypeVar("Member")
MARKER = "rotates"
ALWAYS = frozenset(
    {
        "tests/dr_mirror/copy/test_copying.py",
        "tests/processes/cluster/test_stories.py",
        "tests/processes/test_product.py",
        "tests/simulation/test_seeds_kraft.py",
        "tests/simulation/test_seeds_zookeeper.py",
        "tests/spark_apps/test_flow.py",
    }
)
"""The thin flow through all packages, and what draws its own members: in every whole run."""
SLOW = frozenset({"slow", "java", "browser"})
STORY_S = 10.0
"""A file whose tests take less runs always."""
STORY_PACKAGES = {
    "processes/cluster": ("broker",),
    "processes": ("deploy", "spark_apps", "ingest", "alarm"),
    "conformance": ("broker",),
    "simulation": ("broker",),
}
"""Whose stories stand in a folder that is not named after a package; the first that fits."""
CHANGED_PACKAGES_BUDGET_S = 300.0
"""Seconds of one worker for stories of changed packages beside those whose turn it is."""
UNMEASURED_STORY_S = 60.0


def every_member_is_wanted() -> bool:
    return os.environ.get(EVERY_MEMBER_VARIABLE) == "all"


def turn() -> int:
    """This run's turn; where pytest was called without `./databus test`, the seed's."""
    return int(os.environ.get(TURN_VARIABLE) or os.environ.get("DATABUS_SEED") or 0)


def waiting(name: str, position: int, count: int, members: int, number: int) -> int:
    """How many turns ago the member at `position` was last drawn, `count` of `members` a turn.

    0: in this turn. The walk of each name begins at a place of its own, so that not all matrices
    try their first member in the same turn.
    """
    for ago in range(members):
        first = zlib.crc32(name.encode()) + (number - ago) * count
        if (position - first) % members < count:
            return ago
    raise AssertionError("a member of a walk is drawn within as many turns as there are members")


def drawn(name: str, members: Sequence[Member], count: int = 1) -> list[Member]:
    """So many of the members, in their order; at least as many as ten turns need for all."""
    if every_member_is_wanted():
        return list(members)
    wanted = min(len(members), max(count, -(-len(members) // TURNS)))
    return [
        member
        for position, member in enumerate(members)
        if waiting(name, position, wanted, len(members), turn()) == 0
    ]


@dataclass(frozen=True, slots=True)
class Story:
    """A test with the mark `rotates`, or the other slow tests of a file that takes long.

    `group`: what it is about; who names some tests gets one of each group they have. `name`: a node
    id or a path below the project. `turns_ago`: when it was last drawn by turn; 0 where it is now.
    """

    group: str
    name: str
    items: tuple[pytest.Item, ...]
    turns_ago: int

    @property
    def packages(self) -> tuple[str, ...]:
        return packages_of_story(self.name)


def packages_of_story(name: str) -> tuple[str, ...]:
    """The packages whose changes call for this story.

    >>> packages_of_story("tests/dr_mirror/switch/test_switch.py")
    ('dr_mirror',)
    """
    path = name.split("::")[0].removeprefix("tests/")
    for folder, packages in STORY_PACKAGES.items():
        if path.startswith(f"{folder}/"):
            return packages
    return (path.split("/")[0],)


def stories(items: Sequence[pytest.Item], *, whole_run: bool) -> list[Story]:
    """All stories among the collected tests, with their turns: those of all groups in one row where
    all tests were asked for, else each group by itself."""
    groups = _groups(items, whole_run=whole_run)
    walks = {"all stories": groups} if whole_run else {one: {one: groups[one]} for one in groups}
    return [
        Story(group, name, groups[group][name], waiting(walk, position, count, places, turn()))
        for walk, walked in walks.items()
        for row in (spread(walked),)
        for places in (places_in_row(len(row)),)
        for count in (-(-places // TURNS),)
        for position, (group, name) in enumerate(row)
    ]


def places_in_row(members: int) -> int:
    """How many places a row of stories has, some of them empty: where it is long, a number that 2, 3, 5
    and 7 do not divide. A story would else come every tenth turn exactly, and what it draws itself of
    two members by the same turn would always be the same one.

    >>> [places_in_row(members) for members in (4, 10, 11, 12, 154, 160)]
    [4, 10, 11, 13, 157, 163]
    """
    if members <= TURNS:
        return members
    return next(places for places in itertools.count(members) if math.gcd(places, 2 * 3 * 5 * 7) == 1)


def _groups(
    items: Sequence[pytest.Item], *, whole_run: bool
) -> dict[str, dict[str, tuple[pytest.Item, ...]]]:
    """Marked tests by their group, and where all tests were asked for the slow tests of each long
    file, by package. Who names a file gets it."""
    groups: dict[str, dict[str, tuple[pytest.Item, ...]]] = {}
    by_file: dict[str, list[pytest.Item]] = {}
    for item in items:
        mark = item.get_closest_marker(MARKER)
        if mark is not None:
            groups.setdefault(mark.args[0], {})[item.nodeid] = (item,)
        elif whole_run and not SLOW.isdisjoint(one.name for one in item.iter_markers()):
            by_file.setdefault(item.nodeid.split("::")[0], []).append(item)
    times = read_times()
    for file in sorted(by_file.keys() - ALWAYS):
        if times.of(file, UNMEASURED_STORY_S) >= STORY_S:
            group = f"long tests of {file.split('/')[1]}"
            groups.setdefault(group, {})[file] = tuple(by_file[file])
    return groups


def spread(groups: Mapping[str, Iterable[str]]) -> list[tuple[str, str]]:
    """(group, name) of all members in one row, in which those of a group stand as far from each other
    as they can: so each turn has of every large group its share.

    >>> [name for _, name in spread({"few": "a", "many": "1234"})]
    ['4', 'a', '1', '2', '3']
    """
    places = []
    for group, members in groups.items():
        names = list(members)
        first = zlib.crc32(group.encode()) / (1 << 32)
        places += [((first + n / len(names)) % 1, group, name) for n, name in enumerate(names)]
    return [(group, name) for _, group, name in sorted(places)]


def of_changed_packages(
    found: Iterable[Story], changed: Iterable[str], budget_s: float = CHANGED_PACKAGES_BUDGET_S
) -> list[Story]:
    """Stories of changed packages that have waited longest, as many as the seconds allow."""
    times = read_times()
    packages = set(changed)
    candidates = [one for one in found if one.turns_ago and packages & set(one.packages)]
    chosen: list[Story] = []
    for story in sorted(candidates, key=lambda one: (-one.turns_ago, one.name)):
        seconds = times.of(story.name, UNMEASURED_STORY_S)
        if seconds <= budget_s:
            chosen.append(story)
            budget_s -= seconds
    return chosen


def skip_what_is_not_drawn(items: Sequence[pytest.Item], *, whole_run: bool) -> None:
    """Stories whose turn it is run, and those of packages that changed; the others are skipped, and
    each says which ones of its group run."""
    if every_member_is_wanted():
        return
    found = stories(items, whole_run=whole_run)
    changed = filter(None, os.environ.get(CHANGED_VARIABLE, "").split(","))
    running = [one for one in found if not one.turns_ago]
    running += of_changed_packages(found, changed)
    chosen = {(one.group, one.name) for one in running}
    for story in found:
        if (story.group, story.name) not in chosen:
            names = ", ".join(one.name for one in running if one.group == story.group) or "none"
            reason = f"{story.group}: this run's turn is {names}"
            for item in story.items:
                item.add_marker(pytest.mark.skip(reason=reason))

"""Members of a long matrix that one run tries, drawn by its seed: the same for the same commit.

In: a name and members. Out: some of them; all where every member is wanted
(`./databus test --every-member`). Never: a member that no seed draws.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from deploy.run_tests import EVERY_MEMBER_VARIABLE

Member = TypeVar("Member")
MARKER = "rotates"
FILES_IN_TURN = {
    "products": (
        "processes/test_backup.py", "processes/test_hbase.py", "processes/test_two_drivers.py",
    ),
    "HBase in trouble": (
        "ingest/store/hbase/test_hbase_faults.py", "ingest/store/hbase/test_hbase_shell.py",
    ),
    "long stories of drivers": (
        "spark_apps/test_independence.py", "spark_apps/test_killed_drivers.py",
        "spark_apps/test_secured_bus.py",
    ),
    "command lines of a cluster": (
        "conformance/test_java_cluster_tools.py", "processes/cluster/test_cli.py",
    ),
    "brokers as processes": (
        "broker/controller/zk/test_processes.py", "broker/replica/test_bad_disk.py",
    ),
    "the watch for long": ("monitor/watch/test_service.py", "monitor/watch/test_week.py"),
    "mirrors and Apache Kafka": (
        "dr_mirror/test_from_apache_kafka.py", "dr_mirror/test_to_an_ordinary_listener.py",
        "dr_mirror/test_to_apache_kafka.py",
    ),
    "two sites and their edges": (
        "dr_mirror/test_accounts_of_two_sites.py", "dr_mirror/test_edge_of_two_sites.py",
        "dr_mirror/test_faults.py",
        "dr_mirror/test_pictures_of_two_sites.py", "dr_mirror/test_reconciliation.py",
        "dr_mirror/test_switch.py",
    ),
}  # fmt: skip
"""Of files of about one subject, each of a minute or more, a whole run tries one."""
TESTS = Path(__file__).parent


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


def skip_files_not_drawn(
    items: Sequence[pytest.Item], groups: Mapping[str, Sequence[str]] = FILES_IN_TURN
) -> None:
    """Of the files in turn one a group runs where all of them were asked for; who names a file
    gets it. `groups`: paths below this folder."""
    by_file: dict[Path, list[pytest.Item]] = {}
    for item in items:
        by_file.setdefault(item.path, []).append(item)
    for name, files in groups.items():
        if not all(TESTS / file in by_file for file in files):
            continue
        running = drawn(f"files: {name}", files)
        for file in files:
            if file not in running:
                reason = f"{name}: this run's turn is {', '.join(running)}"
                for item in by_file[TESTS / file]:
                    item.add_marker(pytest.mark.skip(reason=reason))

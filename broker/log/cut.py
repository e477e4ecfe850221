"""A log that has been shortened, and what is left to do for that to last.

In: the files that were cut. Out: the same, forced. Never: which offset to cut at.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.disk.port import Disk
from broker.log.directories import flush_file


class Cut(NamedTuple):
    """What makes a cut durable: the files to force, and whether names have gone."""

    paths: list[str]
    names: bool


def force_cut(disk: Disk, directory: str, cut: Cut) -> None:
    """Do it, on whichever thread may wait for the device.

    Were a cut undone by a loss of power after other records had taken the place of what was cut,
    both would stand in the log.
    """
    for path in cut.paths:
        flush_file(disk, path)
    if cut.names:
        disk.flush_directory(directory)

"""Where the data of a demo lie: each arrangement has its own, so that all can run in one checkout.

In: the data directory, the words of a demo, what is there already. Out: a folder. Never: a write.

The account compares one bus, one store and one city. The plain demo shares its bus and its store
with `up`, in the data directory itself; every other arrangement has another bus or another store
and lies below, in `demo/`. Versions before wrote all of them into the data directory: one that
holds nothing but a certain arrangement is gone on with where it is.
"""

from __future__ import annotations

import itertools
from pathlib import Path

from deploy.cluster.layout import ControllerKind

FOLDER = "demo"
PLAIN = "single"
SECURED = "secured"
TWO_SITES = "sites-2"


def arrangement(
    brokers: int | None, controller: ControllerKind, *, hbase: bool, secured: bool = False
) -> str:
    """What a demo's bus and store are, as a folder's name. Spark's workers keep nothing."""
    words = [] if brokers is None else [f"{controller}-{brokers}"]
    words += [word for word, wanted in (("hbase", hbase), (SECURED, secured)) if wanted]
    return "-".join(words) or PLAIN


def folder_of(root: Path, wanted: str) -> Path:
    """Where the data of this arrangement are, or will be."""
    return root if _owner(root) == wanted else root / FOLDER / wanted


def new_folder_of_two_sites(root: Path) -> Path:
    """Of a run of its own: one site is lost in it, or hands over, and cannot do so again."""
    numbered = (f"{TWO_SITES}-{number}" for number in itertools.count(2))
    places = (root / FOLDER / name for name in itertools.chain([TWO_SITES], numbered))
    return next(place for place in places if not place.exists())


def _owner(root: Path) -> str:
    """The one arrangement whose data a version before has left in the data directory; else the
    plain one."""
    clusters = [kind for kind in ControllerKind if (root / "cluster" / kind).exists()]
    is_plain, is_hbase = (root / "broker").exists(), (root / "hbase").exists()
    is_both = is_hbase and (root / "store" / "records.db").exists()
    if is_both or is_plain + len(clusters) != 1 or not (root / "city").exists():
        return PLAIN
    if is_plain:
        return arrangement(None, ControllerKind.KRAFT, hbase=is_hbase)
    brokers = len(list((root / "cluster" / clusters[0]).glob("broker-*")))
    return arrangement(brokers, clusters[0], hbase=is_hbase)

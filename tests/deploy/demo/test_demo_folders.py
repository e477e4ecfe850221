"""Every arrangement of the demo has data of its own; what a version before left is gone on with."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.cluster.layout import ControllerKind
from deploy.demo.folders import arrangement, folder_of, new_folder_of_two_sites

KRAFT, ZOOKEEPER = ControllerKind.KRAFT, ControllerKind.ZOOKEEPER
WORDS = st.tuples(
    st.none() | st.integers(1, 9), st.sampled_from(list(ControllerKind)), st.booleans()
)


@given(WORDS, WORDS)
def test_another_bus_or_another_store_is_another_folder(
    one: tuple[int | None, ControllerKind, bool], other: tuple[int | None, ControllerKind, bool]
) -> None:
    """A controller is a difference only where there is a cluster."""
    root = Path("/nowhere")
    folders = [
        folder_of(root, arrangement(n, kind, hbase=hbase)) for n, kind, hbase in (one, other)
    ]
    data = [(n, kind if n else None, hbase) for n, kind, hbase in (one, other)]
    assert (folders[0] == folders[1]) == (data[0] == data[1])


def test_the_plain_demo_shares_the_data_directory_with_up(tmp_path: Path) -> None:
    assert folder_of(tmp_path, arrangement(None, KRAFT, hbase=False)) == tmp_path
    assert folder_of(tmp_path, arrangement(3, ZOOKEEPER, hbase=False)) == (
        tmp_path / "demo" / "zookeeper-3"
    )


PLAIN_DATA = ("broker", "store/records.db")
EARLIER = {
    "single": PLAIN_DATA,
    "hbase": ("broker", "hbase", "store/operations.db"),
    "kraft-3": ("cluster/kraft/broker-1", "cluster/kraft/broker-2", "cluster/kraft/broker-3",
                "store/records.db"),
    "zookeeper-1-hbase": ("cluster/zookeeper/broker-1", "cluster/zookeeper/zookeeper-1", "hbase"),
}  # fmt: skip


def left_by_an_earlier_version(root: Path, names: tuple[str, ...]) -> None:
    for name in ("city", *names):
        (root / name).mkdir(parents=True, exist_ok=True)


@pytest.mark.parametrize(("owner", "wanted"), list(itertools.product(EARLIER, EARLIER)))
def test_what_an_earlier_version_left_belongs_to_the_arrangement_that_made_it(
    tmp_path: Path, owner: str, wanted: str
) -> None:
    """It still opens, and no other one is mixed into it."""
    left_by_an_earlier_version(tmp_path, EARLIER[owner])
    assert (folder_of(tmp_path, wanted) == tmp_path) == (wanted == owner)


def test_where_an_earlier_version_has_mixed_two_the_plain_one_goes_on(tmp_path: Path) -> None:
    left_by_an_earlier_version(tmp_path, PLAIN_DATA + EARLIER["kraft-3"])
    assert folder_of(tmp_path, "single") == tmp_path
    assert folder_of(tmp_path, "kraft-3") == tmp_path / "demo" / "kraft-3"


def test_a_cluster_alone_is_nobody_s_demo(tmp_path: Path) -> None:
    """`cluster up` makes one without a city."""
    (tmp_path / "cluster" / "kraft" / "broker-1").mkdir(parents=True)
    assert folder_of(tmp_path, "single") == tmp_path


def test_each_run_of_two_sites_begins_with_two_sites(tmp_path: Path) -> None:
    """One is lost in it, or has handed over."""
    places = []
    for _ in range(3):
        places.append(new_folder_of_two_sites(tmp_path))
        places[-1].mkdir(parents=True)
    assert [place.name for place in places] == ["sites-2", "sites-2-2", "sites-2-3"]

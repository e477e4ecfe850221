"""The words of `bench cluster`, and what it refuses to keep."""

from __future__ import annotations

import pytest

from deploy.bench.cluster.cluster_probe import wait_until
from deploy.bench.cluster.measure import GROUPS, NAMES, chosen
from deploy.bench.cluster.size import SMALL, Size, parse_size
from deploy.bench.report import FIGURES
from deploy.bench.run import run_cluster
from deploy.cluster.layout import ControllerKind
from deploy.errors import OperatorError


def test_every_figure_of_the_cluster_is_measured_by_one_group() -> None:
    """And has its bounds in the one table."""
    assert len(set(NAMES)) == sum(len(names) for names, _ in GROUPS)
    assert set(NAMES) == {name for name in FIGURES if name.startswith("cluster-")}


def test_a_part_of_the_figures_is_chosen_by_their_beginnings() -> None:
    """`ack` is both percentiles; the order is that of the groups; nothing chosen is everything."""
    assert chosen("ack,single") == ["cluster-single", "cluster-ack-p50", "cluster-ack-p99"]
    assert chosen("") == list(NAMES)
    with pytest.raises(OperatorError, match="no figure of the cluster 'speed'"):
        chosen("single,speed")


@pytest.mark.parametrize(("text", "size"), [("6GB", 6_000_000_000), ("1.5gb", 1_500_000_000)])
def test_sizes_are_written_as_people_write_them(text: str, size: int) -> None:
    """Decimal units, as disks have them."""
    assert parse_size(text) == size
    with pytest.raises(OperatorError, match="write it as 6GB"):
        parse_size("six")


@pytest.mark.parametrize(
    ("size", "controller"),
    [(SMALL, ControllerKind.KRAFT), (Size(), ControllerKind.ZOOKEEPER)],
)
def test_only_full_runs_under_kraft_are_kept(size: Size, controller: ControllerKind) -> None:
    """A quick run is no valid measurement; it is refused before anything is started."""
    with pytest.raises(OperatorError, match="are kept"):
        run_cluster("", repeat=1, size=size, controller=controller, write=True, as_json=False)


def test_a_wait_ends_at_its_bound_and_says_for_what() -> None:
    """No measurement waits for ever."""
    with pytest.raises(OperatorError, match="not within 0 s: rain"):
        wait_until(lambda: False, "rain", within_s=0)

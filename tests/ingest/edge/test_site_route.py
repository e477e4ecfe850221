"""To which site an edge sends: orders, restarts, damaged files."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
import typer
from typer.testing import CliRunner, Result

from bus.settings import BusSettings, SiteSettings
from ingest.edge.cli import mount
from ingest.edge.sites.site_route import HOME, SECOND, SiteRoute, write_order
from ingest.settings import EdgeSettings

AT_HOME = BusSettings(bootstrap_servers="10.1.0.5:9092")
AT_SECOND = BusSettings(bootstrap_servers="10.2.0.5:9092")


def opened(folder: Path) -> SiteRoute:
    return SiteRoute(folder, AT_HOME, AT_SECOND)


def test_a_move_that_was_ordered_goes_on_after_a_restart_and_ends_at_the_other_site(tmp_path: Path):
    """And an order to stay where it is ends it."""
    route = opened(tmp_path)
    write_order(tmp_path, SECOND)
    route.read_order()
    assert (route.active, route.moving_to) == (HOME, SECOND)
    route = opened(tmp_path)
    assert route.moving_to == SECOND
    route.order(HOME, "a person said so")
    assert opened(tmp_path).moving_to is None
    route.order(SECOND, "a person said so")
    route.complete(5)
    route = opened(tmp_path)
    assert (route.active, route.other, route.moving_to) == (SECOND, HOME, None)
    assert route.bus(route.active) is AT_SECOND
    assert (route.state.moves, route.state.moved_at_ms) == (1, 5)
    route.complete(6)  # nothing was ordered
    assert route.state.moves == 1


def test_an_edge_with_one_site_sends_home_whatever_was_before(tmp_path: Path):
    """The second site was taken out of the settings."""
    route = opened(tmp_path)
    route.order(SECOND, "a person said so")
    route.complete(1)
    alone = SiteRoute(tmp_path, AT_HOME, None)
    alone.order(SECOND, "a person said so")
    assert (alone.active, alone.moving_to) == (HOME, None)
    assert alone.bus(SECOND) is AT_HOME


def test_damaged_files_are_no_order_and_an_edge_that_sends_home(
    tmp_path: Path, dice: random.Random
):
    """Any bytes; what is read is a state that could have been written."""
    whole = msgspec.json.encode({"active": "second", "moves": 3, "cluster_ids": {"home": "a"}})
    for _ in range(100):
        damaged = bytearray(whole)
        damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        (tmp_path / "site.json").write_bytes(damaged[: dice.randrange(len(damaged) + 1)])
        assert opened(tmp_path).active in (HOME, SECOND)
        (tmp_path / "site-order.json").write_bytes(dice.randbytes(dice.randrange(30)))
        route = opened(tmp_path)
        route.read_order()
        assert route.moving_to is None
        assert not (tmp_path / "site-order.json").exists()


def run_move(folder: Path, second: str, *words: str) -> Result:
    app = typer.Typer()
    mount(app)
    settings = SimpleNamespace(
        site=SiteSettings(data_dir=str(folder), language="en"),
        edge=EdgeSettings(second_site_bootstrap_servers=second),
    )
    return CliRunner().invoke(app, ["edge", "move", *words], obj=settings)


@pytest.mark.parametrize(
    ("second", "words", "status", "text"),
    [
        ("", ("--to", "second"), 1, "one site only"),
        ("b:1", ("--to", "elsewhere"), 2, "not one of home, second"),
        ("b:1", ("--to", "second", "--wait", "0"), 0, "is told to send to: second"),
        ("b:1", ("--to", "second", "--wait", "0.1"), 1, "Not complete after 0.1 s"),
        ("b:1", ("--to", "home"), 0, "Records go to: home"),
    ],
)
def test_the_command_says_whether_the_edge_has_moved(
    tmp_path: Path, second: str, words: tuple[str, ...], status: int, text: str
):
    """No edge runs here, so that what it was told stays in its folder."""
    SiteRoute(tmp_path / "spool", AT_HOME, AT_SECOND)
    done = run_move(tmp_path, second, *words)
    assert done.exit_code == status, done.output
    assert text in " ".join(done.output.replace("│", " ").split())

"""Two drivers of the applications by one setting: who is started, and who is said to do what."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.reconcile.drain import stages_of_roles
from deploy.roles.stages import stages_of
from deploy.roles.table import DEMO, PRODUCT, children, roles_of
from deploy.settings.composed import Settings, compose, load
from deploy.settings.sources import SettingsError, from_toml


@pytest.fixture
def two(tmp_path: Path) -> Settings:
    return load(None, [f"site.data_dir={tmp_path}", "streams.drivers=2"], {})


def test_the_watch_list_is_started_first_and_the_city_waits_for_both(two: Settings) -> None:
    started = {child.name: child for child in children(two, DEMO)}
    names = list(started)
    assert names.index("streams-watchlist") < names.index("streams")
    assert {"streams-watchlist", "streams"} <= set(started["city"].needs)
    assert started["streams-watchlist"].command[-2:] == ("run", "streams-watchlist")
    assert started["streams-watchlist"].ready_line


def test_one_driver_is_as_before(tmp_path: Path) -> None:
    one = load(None, [f"site.data_dir={tmp_path}"], {})
    assert roles_of(one, PRODUCT) == list(PRODUCT)
    assert {child.name for child in children(one, PRODUCT)} == set(PRODUCT)
    assert {stage.role for stage in stages_of(one.streams)} == {"streams"}


def test_every_application_runs_in_exactly_one_driver(two: Settings) -> None:
    alone = two.streams.applications_of(alarms_alone=True)
    beside = two.streams.applications_of(alarms_alone=False)
    assert alone == ("watchlist",)
    assert sorted([*alone, *beside]) == sorted(two.streams.applications)
    one = load(None, [], {}).streams
    assert one.applications_of(alarms_alone=False) == one.applications


def test_status_and_watch_ask_the_driver_that_does_the_work(two: Settings) -> None:
    roles = {one.stage: one.role for one in stages_of(two.streams)}
    assert roles["watchlist"] == "streams-watchlist"
    found = stages_of_roles(two)
    assert found["streams-watchlist"] == ("watchlist",)
    assert "watchlist" not in found["streams"]


@pytest.mark.parametrize(
    ("applications", "drivers"), [('["ingest", "quality"]', 2), ('["watchlist"]', 2), ("[]", 3)]
)
def test_two_drivers_without_work_for_both_are_refused(applications: str, drivers: int) -> None:
    """The fault names its line."""
    text = f"[streams]\napplications = {applications}\ndrivers = {drivers}\n"
    with pytest.raises(SettingsError, match=r"line 3: .*drivers"):
        compose(from_toml(Path("x.toml"), text), base=Path("/tmp"))


def test_sparks_dotted_keys_stay_whole_in_the_settings_file() -> None:
    text = '[streams.conf]\nspark.cores.max = 2\n"spark.ui.enabled" = true\n'
    settings = compose(from_toml(Path("x.toml"), text), base=Path("/tmp"))
    assert settings.streams.conf == {"spark.cores.max": "2", "spark.ui.enabled": "true"}

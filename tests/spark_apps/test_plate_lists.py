"""Lists of plates as drivers and executors match them, with a real broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.spark_apps.conftest import DriverProcess

pytestmark = [pytest.mark.java, pytest.mark.timeout(400)]

OURS = pytest.mark.parametrize("bootstrap", ["our broker"], indirect=True)
PLATES = tuple(f"沪C{number:05}" for number in range(20_000))


@OURS
@pytest.mark.parametrize("work_in", ["driver", "executors"], indirect=True)
def test_a_list_is_matched_as_it_was_when_the_record_was_produced(driver: DriverProcess) -> None:
    """Its base, then a change of it between two batches, then another base with look-alikes."""
    driver.put_list("stolen", PLATES)
    driver.send_vehicle(1, "沪 c·00007")
    driver.send_vehicle(2, "沪C99999")
    driver.send_vehicle(3, "沪C8B001")
    driver.flush()
    driver.start("watchlist")
    expected = {("list/stolen", "id-1"): 1}
    driver.until(found_by(driver), expected)

    driver.put_list("stolen", PLATES, added=["沪C99999"], version=2)
    driver.send_vehicle(4, "沪C99999")  # the very next record after the acknowledgement
    driver.send_vehicle(5, "沪C8B001")
    driver.flush()
    expected[("list/stolen", "id-4")] = 1
    driver.until(found_by(driver), expected)

    driver.put_tree("exempt", "plate_number like 沪C8* and not plate_number on stolen")
    driver.put_list("stolen", ["沪CB8DD1"], version=3, tolerance="look-alikes")
    driver.send_vehicle(6, "沪C8B001")
    driver.send_vehicle(7, "沪C8C001")
    driver.send_vehicle(8, "沪C00007")
    driver.flush()
    expected |= {("list/stolen", "id-6"): 1, ("exempt", "id-7"): 1}
    driver.until(found_by(driver), expected)
    assert driver.stop() == 0
    tables = sorted((driver.data_dir / "lists").glob("*.table"))
    assert len(tables) == 2, "one for each base, built once"


def found_by(driver: DriverProcess) -> Callable[[], dict[tuple[str, str], int]]:
    return lambda: dict(driver.candidates())

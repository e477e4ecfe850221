"""Galleries of faces as drivers and executors match them, with a real broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.contracts.feature_models import FeatureModel
from tests.alarm.lists.made_galleries import feature, text_of, unit
from tests.spark_apps.test_plate_lists import found_by

if TYPE_CHECKING:
    from tests.spark_apps.conftest import DriverProcess

pytestmark = [pytest.mark.java, pytest.mark.timeout(400)]

OURS = pytest.mark.parametrize("bootstrap", ["our broker"], indirect=True)
MODEL = FeatureModel(name="made/1", dimensions=64, measure="cosine", threshold=0.7)
FACES = {f"P{number}": feature(unit(64, number)) for number in range(2_000)}


def seen(number: int, noise: float = 0.3) -> str:
    """A capture of that person; of 0.3 it has 0.96 of the face, of 2 hardly 0.5."""
    return text_of(feature(unit(64, number) + noise * unit(64, 99_999)))


def uncompared(driver: DriverProcess) -> dict[str, float]:
    name = "databus_streams_uncompared_faces_total"
    found = driver.metrics()
    reasons = ("other model", "no feature")
    return {one: found.get(f'{name}{{reason="{one}"}}', 0) for one in reasons}


@OURS
@pytest.mark.parametrize("work_in", ["driver", "executors"], indirect=True)
def test_a_gallery_is_compared_as_it_was_when_the_record_was_produced(
    driver: DriverProcess,
) -> None:
    """Its base, then a change of it between two batches; a capture that resembles nobody enough is
    no hit, and one of another model or without a feature is none either, and counted."""
    driver.put_gallery("wanted", MODEL, FACES)
    driver.send_face(1, seen(7), MODEL.name)
    driver.send_face(2, seen(7, noise=2), MODEL.name)
    driver.send_face(3, seen(7), "another/1")
    driver.send_face(4, "no base64", MODEL.name)
    driver.send_face(5, seen(5_000), MODEL.name)
    driver.flush()
    driver.start("watchlist")
    expected = {("list/wanted", "id-1"): 1}
    driver.until(found_by(driver), expected)
    driver.until(lambda: uncompared(driver), {"other model": 1, "no feature": 1})

    added = {"P5000": feature(unit(64, 5_000))}
    driver.put_gallery("wanted", MODEL, FACES, added=added, removed=["P7"], version=2)
    driver.send_face(6, seen(5_000), MODEL.name)  # the very next record after the acknowledgement
    driver.send_face(7, seen(7), MODEL.name)
    driver.flush()
    expected[("list/wanted", "id-6")] = 1
    driver.until(found_by(driver), expected)
    assert driver.stop() == 0
    tables = sorted((driver.data_dir / "lists").glob("*.faces"))
    assert len(tables) == 1, "one for the base, built once"

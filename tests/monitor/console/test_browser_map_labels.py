"""No name on the map lies over another one, however many there are; a hidden one comes by a tap.

One console with a crowded city for the file. Screenshots go beside the test's data.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from console_browser import WIDTHS, ConsoleProcess, OpenPage, now_ms, shoot
from console_city import MINUTE_MS, register
from playwright.sync_api import Page

from bus.contracts.register import District, encode_register
from ingest.store.open import open_store
from ingest.store.port import RecordRow, StoreBatch

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("console-browser")]
PLATE, STOPS = "浙A0W4T8", 40
LABELS = """
() => [...document.querySelectorAll('.city-map .leaflet-tooltip')].map(element => {
  const box = element.getBoundingClientRect(), style = getComputedStyle(element);
  const shown = style.visibility === 'visible' && style.display !== 'none' && box.width > 0;
  return { text: element.innerText || element.textContent, shown, left: box.left, top: box.top, right: box.right, bottom: box.bottom };
})
"""
# Nothing has moved, come or gone for so many frames: a zoom begins some frames after its button was pressed and
# moves the names for a quarter of a second.
STILL_FRAMES, MOST_FRAMES = 20, 600
DRAWN = """
([still, most]) => new Promise((done, failed) => {
  let before = '', same = 0, seen = 0;
  const look = () => {
    const now = [...document.querySelectorAll('.city-map .leaflet-tooltip')].map(element => {
      const box = element.getBoundingClientRect();
      return [box.left, box.top, box.width, getComputedStyle(element).visibility].join();
    }).join(';');
    same = now === before ? same + 1 : 0;
    before = now;
    if (same >= still) done();
    else if (++seen > most) failed(new Error('the names of the map do not come to rest'));
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})
"""


@pytest.fixture(scope="module", autouse=True)
def crowded(console: ConsoleProcess) -> None:
    """Every crossing is a district of its own with a long name, and a car has driven through all of them."""
    city = register()
    districts = tuple(
        District(district_id=c.checkpoint_id, name=f"第{n}街道办事处辖区", name_en=f"Subdistrict office {n}")
        for n, c in enumerate(city.checkpoints)
    )
    places = tuple(msgspec.structs.replace(c, district_id=c.checkpoint_id) for c in city.checkpoints)
    made = msgspec.structs.replace(city, districts=districts, checkpoints=places)
    (console.data_path / "register.json").write_bytes(encode_register(made))
    begin_ms = now_ms() - STOPS * MINUTE_MS
    rows = [
        _seen(n, city.checkpoints[n * 7 % 36].checkpoint_id, begin_ms + n * MINUTE_MS) for n in range(STOPS)
    ]
    store = open_store(f"sqlite://{console.data_path}/store/records.db", "write")
    store.apply(StoreBatch(rows=rows), [])
    store.close()


def _seen(number: int, place: str, at_ms: int) -> RecordRow:
    return RecordRow(
        record_id=f"crowd-{number}", kind="vehicle", checkpoint_id=place, district_id="", camera_ip="10.1.0.1",
        recognizer_ip="", captured_at_ms=at_ms, received_at_ms=at_ms + 80, plate_number=PLATE, plate_key=PLATE,
        body=b"{}",
    )  # fmt: skip


def labels(page: Page) -> list[dict[str, Any]]:
    page.evaluate(DRAWN, [STILL_FRAMES, MOST_FRAMES])
    return list(page.evaluate(LABELS))


def shown(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for one in found if one["shown"]]


def overlapping(found: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [
        (a["text"], b["text"])
        for n, a in enumerate(shown(found))
        for b in shown(found)[n + 1 :]
        if min(a["right"], b["right"]) > max(a["left"], b["left"])
        and min(a["bottom"], b["bottom"]) > max(a["top"], b["top"])
    ]


def open_map(page: Page, console: ConsoleProcess, width: int) -> None:
    page.set_viewport_size({"width": width, "height": WIDTHS[width]})
    page.goto(f"{console.url}/map?plate={quote(PLATE)}&checkpoint={quote('330100#5#0#0')}")
    page.wait_for_selector(f".stops .stop:nth-child({STOPS})", state="attached")
    page.wait_for_selector(f".city-map .leaflet-tooltip-top >> text={STOPS}.")


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_no_two_names_lie_over_each_other(open_page: OpenPage, console: ConsoleProcess, width: int) -> None:
    """At every size and zoom; at first the newest stop and the chosen checkpoint are named."""
    page = open_page(width=width)
    open_map(page, console, width)
    named = [one["text"] for one in shown(labels(page))]
    assert any(text.startswith(f"{STOPS}.") for text in named)
    assert any("湖滨街与东中山路" in text for text in named)
    for zoom in ("", "Zoom out", "Zoom out", "Zoom out", "Zoom in", "Zoom in"):
        if zoom:
            page.locator(f".leaflet-control-zoom a[aria-label='{zoom}']").click()
            page.wait_for_selector(".leaflet-zoom-anim", state="detached")
        found = labels(page)
        assert overlapping(found) == [], (width, zoom)
        assert len(found) > STOPS
        assert len(shown(found)) < len(found)
        assert shown(found)
    shoot(page, console, f"labels-{width}")


def test_a_hidden_name_comes_by_a_tap_and_gives_its_place_back(
    open_page: OpenPage, console: ConsoleProcess
) -> None:
    """On a telephone; the names that it would cover are hidden meanwhile."""
    page = open_page(width=390)
    open_map(page, console, 390)
    page.locator(".map-side .panel:has(.targets) >> text=全图").last.click()
    page.evaluate("scrollTo(0, 0)")  # the button is below the map
    page.wait_for_function("scrollY === 0")
    area = page.locator(".city-map").bounding_box()
    assert area is not None
    inside = [
        one for one in labels(page)
        if not one["shown"] and one["text"].startswith("第")
        and area["x"] + 60 < one["left"] and one["right"] < area["x"] + area["width"] - 10
        and area["y"] + 80 < one["top"] and one["bottom"] < area["y"] + area["height"] - 60
    ]  # fmt: skip
    assert inside
    one = inside[0]
    page.mouse.click((one["left"] + one["right"]) / 2, (one["top"] + one["bottom"]) / 2)
    after = labels(page)
    assert one["text"] in [each["text"] for each in shown(after)]
    assert overlapping(after) == []
    shoot(page, console, "labels-after-a-tap")
    page.mouse.click(area["x"] + area["width"] - 12, area["y"] + 90)
    assert overlapping(labels(page)) == []

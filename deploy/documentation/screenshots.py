"""`databus screenshots`: pictures of the console for README and docs, from a demo that runs.

In: the console's address and data directory. Out: one WebP for each page and language, of one
size and below a bound of bytes. Never: a picture of a page that still waits for its data, a change
of what the demo holds (but for the one-time link that logs it in).
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from PIL import Image

from deploy.errors import OperatorError
from deploy.paths import PROJECT_ROOT
from deploy.setup.test_packages import CHROMIUM
from monitor.accounts.one_time_links import issue_one_time_link

if TYPE_CHECKING:  # only tests and this command have it
    from playwright.sync_api import BrowserContext, Page

FOLDER = PROJECT_ROOT / "docs" / "pictures"
LANGUAGES = ("en", "zh")
WIDTH, HEIGHT = 1440, 900
MIN_BYTES, MAX_BYTES = 20_000, 120_000  # less shows next to nothing
WEBP_QUALITIES = (84, 70, 50)  # the first that keeps the bound
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
PATIENCE_MS = 30_000
SKELETON, TRIES = "#skeleton", 5  # what stands there until the page is built
DRAWN_MS = 1_500  # charts and panels move to their places for a second
DEMO = "./databus --set city.picture_every=1 demo"  # each record with its picture
_ALL_LOADED = "document.fonts.status === 'loaded' && [...document.images].every(i => i.complete)"


class PageShot(NamedTuple):
    """A page as it is shown: what must be there, in sequence; what is clicked before the last."""

    page: str
    theme: str
    visible: tuple[str, ...]
    click: str = ""
    query: str = ""


_ROW = ".ag-center-cols-container .ag-row"
SHOTS = (
    PageShot("live", "dark", ("canvas", *(f".two > :nth-child({half}) {_ROW}" for half in (1, 2)))),
    PageShot("map", "dark", (".city-map canvas", ".target")),
    PageShot(
        "records", "light", (f"{_ROW} img.thumb", ".detail figure img"),
        click=".ag-row:has(img.thumb) [col-id=captured_at]",
    ),
    PageShot("quality", "light", (_ROW, "canvas"), query="?span=hour"),
)  # fmt: skip


def file_name(page: str, language: str) -> str:
    """Of a page's picture."""
    return f"console_{page}_{language}.webp"


def save_pictures(
    url: str, data_path: Path, folder: Path, only: Collection[str] = ()
) -> Iterator[Path]:
    """A picture for each page (or those of `only`) and language. Raises OperatorError."""
    wanted = [shot for shot in SHOTS if not only or shot.page in only]
    if unknown := set(only) - {shot.page for shot in SHOTS}:
        known = ", ".join(shot.page for shot in SHOTS)
        raise OperatorError(f"no picture of {', '.join(sorted(unknown))}; there are: {known}")
    folder.mkdir(parents=True, exist_ok=True)
    with _logged_in(url, data_path) as context:
        for language in LANGUAGES:
            for shot in wanted:
                path = folder / file_name(shot.page, language)
                path.write_bytes(_small(_picture(context, url, shot, language)))
                yield path


@contextmanager
def _logged_in(url: str, data_path: Path) -> Iterator[BrowserContext]:
    from playwright.sync_api import Error, sync_playwright

    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if program is None:
        raise OperatorError("needs Chromium; install it (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, headless=True, args=FLAGS)
        try:
            context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT})
            context.set_default_timeout(PATIENCE_MS)
            page = context.new_page()
            page.goto(issue_one_time_link(data_path, base_url=url))
            page.close()
            yield context
        except Error as error:
            raise OperatorError(
                f"no picture from {url}: {str(error).splitlines()[0]}; it needs a demo that has"
                f" run for some minutes: {DEMO}"
            ) from error
        finally:
            browser.close()


def _picture(context: BrowserContext, url: str, shot: PageShot, language: str) -> bytes:
    """PNG of the page, once all is there."""
    context.request.post(
        f"{url}/auth/preferences", form={"language": language, "theme": shot.theme},
        max_redirects=0,
    )  # fmt: skip
    page = context.new_page()
    page.goto(f"{url}/{shot.page}{shot.query}")
    _wait_until_visible(page, shot)
    picture = page.screenshot()
    page.close()
    return picture


def _wait_until_visible(page: Page, shot: PageShot) -> None:
    """And until it has stood for a while: on a busy machine a page may load once more by itself."""
    for _ in range(TRIES):
        _wait_once(page, shot)
        page.wait_for_timeout(DRAWN_MS)
        if page.locator(SKELETON).is_hidden() and page.locator(shot.visible[-1]).first.is_visible():
            return
    raise OperatorError(f"the page {shot.page} loads again and again")


def _wait_once(page: Page, shot: PageShot) -> None:
    *before, last = shot.visible
    page.locator(SKELETON).wait_for(state="hidden")
    for selector in before:
        page.locator(selector).first.wait_for()
    if shot.click and not page.locator(last).first.is_visible():
        page.locator(shot.click).first.click()
    page.locator(last).first.wait_for()
    page.wait_for_function(_ALL_LOADED)


def _small(png: bytes) -> bytes:
    """As WebP within the bounds. Raises OperatorError."""
    image = Image.open(io.BytesIO(png)).convert("RGB")
    for quality in WEBP_QUALITIES:
        made = io.BytesIO()
        image.save(made, "WEBP", quality=quality, method=6)
        if MIN_BYTES <= made.tell() <= MAX_BYTES:
            return made.getvalue()
    raise OperatorError(f"a picture has {made.tell()} bytes, not {MIN_BYTES} to {MAX_BYTES}")

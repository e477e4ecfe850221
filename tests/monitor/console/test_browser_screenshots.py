"""`databus screenshots`: the pictures of README, taken of a console that runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from console_browser import ConsoleProcess
from PIL import Image

from deploy.documentation.screenshots import (
    DEMO,
    HEIGHT,
    LANGUAGES,
    MAX_BYTES,
    MIN_BYTES,
    WIDTH,
    file_name,
)
from deploy.paths import PROJECT_ROOT

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("console-browser")]


def screenshots(url: str, data_path: Path, folder: Path, *pages: str) -> subprocess.CompletedProcess[str]:
    port = url.rpartition(":")[2]
    only = [word for page in pages for word in ("--only", page)]
    words = ["--data-dir", str(data_path), "--set", f"console.port={port}"]
    return subprocess.run(
        [sys.executable, "-m", "deploy", *words, "screenshots", str(folder), *only],
        cwd=PROJECT_ROOT, capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip


def test_a_page_is_taken_in_both_languages_of_one_size_and_light(console: ConsoleProcess, tmp_path: Path) -> None:
    """A record with its picture, and the curves of quality, as a person sees them."""
    done = screenshots(console.url, console.data_path, tmp_path, "records", "quality")
    assert done.returncode == 0, done.stderr
    files = {file_name(page, language) for page in ("records", "quality") for language in LANGUAGES}
    assert {path.name for path in tmp_path.iterdir()} == files
    shown = {}
    for name in files:
        path = tmp_path / name
        assert MIN_BYTES <= path.stat().st_size <= MAX_BYTES
        with Image.open(path) as image:
            assert (image.format, image.size) == ("WEBP", (WIDTH, HEIGHT))
            shown[name] = np.asarray(image.convert("L"), dtype=np.int16)
    for page in ("records", "quality"):
        english, chinese = (shown[file_name(page, language)] for language in LANGUAGES)
        assert english.std() > 10, "a page of one colour shows nothing"
        assert (abs(english - chinese) > 60).mean() > 0.002, "both are in one language"


def test_a_page_that_has_no_picture_is_named_and_nothing_is_written(console: ConsoleProcess, tmp_path: Path) -> None:
    done = screenshots(console.url, console.data_path, tmp_path / "new", "nowhere")
    assert done.returncode != 0
    assert "no picture of nowhere; there are: live, map, records, quality" in done.stderr
    assert not (tmp_path / "new").exists()


def test_without_a_demo_it_says_what_to_start(tmp_path: Path) -> None:
    """Nobody listens on port 1."""
    done = screenshots("http://127.0.0.1:1", tmp_path, tmp_path / "new", "quality")
    assert done.returncode != 0
    assert DEMO in done.stderr
    assert "Traceback" not in done.stderr

"""The pictures of the console in the repository: all of them, of one size, small, and shown."""

from __future__ import annotations

import pytest
from PIL import Image

from deploy.documentation.screenshots import (
    FOLDER,
    HEIGHT,
    LANGUAGES,
    MAX_BYTES,
    MIN_BYTES,
    SHOTS,
    WIDTH,
    file_name,
)
from deploy.paths import PROJECT_ROOT

README = {"en": "README.md", "zh": "README.zh.md"}


def test_the_folder_holds_what_the_command_takes_and_no_other_picture_of_the_console() -> None:
    """Regression: README showed a console of long ago; one picture was shown nowhere."""
    taken = {file_name(shot.page, language) for shot in SHOTS for language in LANGUAGES}
    assert {path.name for path in FOLDER.glob("console_*")} == taken


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_readme_shows_the_pictures_of_its_language(language: str) -> None:
    text = (PROJECT_ROOT / README[language]).read_text(encoding="utf-8")
    for other in LANGUAGES:
        shown = [file_name(shot.page, other) in text for shot in SHOTS]
        assert all(shown) if other == language else not any(shown)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("console_*")), ids=lambda path: path.name)
def test_a_picture_has_the_size_of_all_and_keeps_the_bound_of_bytes(path) -> None:
    assert MIN_BYTES <= path.stat().st_size <= MAX_BYTES
    with Image.open(path) as image:
        assert (image.format, image.size) == ("WEBP", (WIDTH, HEIGHT))

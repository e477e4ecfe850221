"""The one zip of our packages that Spark ships to executors (`--py-files`), local masters too.

In: the source tree. Out: a zip that is the same to the byte for the same tree.
Never: tests, data, or anything that is not our source.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

from deploy.paths import PACKAGES, PROJECT_ROOT

EPOCH = (1980, 1, 1, 0, 0, 0)  # zip's earliest date: the content alone decides the bytes
PACKAGED = (".py", ".json", ".txt")


def source_files() -> Iterator[Path]:
    """Every file that travels, in a stable order."""
    for package in PACKAGES:
        for path in sorted((PROJECT_ROOT / package).rglob("*")):
            if path.is_file() and path.suffix in PACKAGED and "__pycache__" not in path.parts:
                yield path


def build_zip(target: Path | None = None) -> Path:
    """Write the zip (whole or not at all) and return its path."""
    path = (target or PROJECT_ROOT / "dist" / "packages.zip").absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
        for source in source_files():
            entry = zipfile.ZipInfo(str(source.relative_to(PROJECT_ROOT)), EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, source.read_bytes())
    partial.replace(path)
    return path

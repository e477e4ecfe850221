"""Whether what somebody gives for a list are photos: by name, by what a file begins with, or a ZIP
or folder of them."""

from __future__ import annotations

import zipfile
from contextlib import suppress
from pathlib import Path, PurePosixPath

_PICTURES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff"})
_BEGINNINGS = (b"\xff\xd8\xff", b"\x89PNG\r\n", b"II*\0", b"MM\0*")
_OF_A_WORKBOOK = frozenset({"[Content_Types].xml", "content.xml"})
"""A file of every .xlsx, and one of every .ods: photos may stand in a sheet, too."""


def is_of_photos(path: Path) -> bool:
    """A folder counts as one of photos. Raises OSError."""
    if path.is_dir() or path.suffix.lower() in _PICTURES:
        return True
    with path.open("rb") as file:
        if file.read(8).startswith(_BEGINNINGS):
            return True
    with suppress(zipfile.BadZipFile), zipfile.ZipFile(path) as packed:
        names = packed.namelist()
        suffixes = {PurePosixPath(name).suffix.lower() for name in names}
        return not _OF_A_WORKBOOK & set(names) and bool(_PICTURES & suffixes)
    return False

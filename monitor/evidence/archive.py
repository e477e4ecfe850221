"""Packs evidence: one ZIP with the device's messages, the pictures, a manifest, a page to print,
and the hash of each file.

In: records and where their pictures are read. Out: the ZIP in a file, and its manifest. Never: more
than `MOST_BYTES` of pictures; a picture that could not be read passed by without a word.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, NamedTuple

import jinja2
import msgspec

from bus.contracts.pictures import name_in_address
from monitor.evidence.manifest import (
    EvidenceAlarm,
    EvidenceFile,
    EvidenceManifest,
    EvidencePicture,
    EvidenceRecord,
    RecordSource,
)
from monitor.i18n import Texts
from monitor.ports import ReadPicture

MOST_RECORDS = 200
MOST_BYTES = 512 << 20
"""Of pictures: two and a half megabytes a record."""
MANIFEST, SUMS, PAGE = "manifest.json", "SHA256SUMS", "index.html"
_TEMPLATE = Path(__file__).parent / "page.html"
_PACKED = {"jpg", "jpeg", "png", "gif", "webp"}
"""Formats that nothing makes smaller."""


class EvidenceRequest(NamedTuple):
    """Who asks for what. `made_at`: in the site's zone."""

    site: str
    made_by: str
    made_at: datetime
    about: dict[str, str]


class EvidenceArchive:
    """One package while it is written. Invariant: `files` has a line for each file of the ZIP."""

    def __init__(self, target: BinaryIO, made_at: datetime, read_picture: ReadPicture) -> None:
        self._zip = zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED)
        self._date = made_at.timetuple()[:6]
        self._read_picture = read_picture
        self._picture_bytes = 0
        self.files: list[EvidenceFile] = []

    def add_record(self, number: int, source: RecordSource) -> EvidenceRecord:
        """The files of a record, and what the manifest says of it."""
        record = msgspec.structs.replace(source.record, message=f"records/{number:03d}.json")
        self.add(record.message, source.message)
        record.pictures = [
            self._add_picture(f"pictures/{number:03d}-{at}", picture, source)
            for at, picture in enumerate(record.pictures)
        ]
        return record

    def _add_picture(
        self, stem: str, picture: EvidencePicture, source: RecordSource
    ) -> EvidencePicture:
        copy = source.copies.get(picture.url, picture.url)
        name = name_in_address(copy)
        data, why = self._picture(name) if name else (b"", "kept elsewhere")
        if why:
            return msgspec.structs.replace(picture, missing=why)
        file = f"{stem}.{name.rpartition('.')[2].lower()}"
        self._picture_bytes += len(data)
        self.add(file, data)
        return msgspec.structs.replace(picture, file=file)

    def _picture(self, name: str) -> tuple[bytes, str]:
        """Its bytes, or why there are none."""
        try:
            found = self._read_picture(name)
        except (OSError, ValueError) as error:
            return b"", f"the picture store is away: {error}"
        if found is None:
            return b"", "deleted after its days, or never stored"
        data, _ = found
        if self._picture_bytes + len(data) > MOST_BYTES:
            return b"", f"the package is full: {MOST_BYTES >> 20} MiB of pictures"
        return data, ""

    def add(self, name: str, data: bytes) -> None:
        """A file with the hash of its bytes."""
        self.files.append(EvidenceFile(
            name=name, size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest()
        ))  # fmt: skip
        info = zipfile.ZipInfo(name, self._date)
        is_packed = name.rpartition(".")[2] in _PACKED
        info.compress_type = zipfile.ZIP_STORED if is_packed else zipfile.ZIP_DEFLATED
        info.external_attr = 0o644 << 16
        self._zip.writestr(info, data)

    def close(self) -> None:
        """The ZIP is whole."""
        self._zip.close()


def write_archive(
    target: BinaryIO,
    asked: EvidenceRequest,
    alarm: EvidenceAlarm | None,
    sources: Sequence[RecordSource],
    read_picture: ReadPicture,
    t: Texts,
) -> EvidenceManifest:
    """Pack the first `MOST_RECORDS` of them, in their order. Raises OSError of the target."""
    archive = EvidenceArchive(target, asked.made_at, read_picture)
    manifest = EvidenceManifest(
        made_at=asked.made_at.isoformat(timespec="seconds"),
        made_by=asked.made_by,
        site=asked.site,
        about=asked.about,
        alarm=alarm,
        records=[
            archive.add_record(number, source)
            for number, source in enumerate(sources[:MOST_RECORDS], 1)
        ],
    )
    manifest.files = list(archive.files)
    archive.add(PAGE, printed_page(manifest, t).encode("utf-8", "replace"))
    manifest.files = list(archive.files)
    archive.add(MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=1))
    archive.add(SUMS, _sums(archive.files))
    archive.close()
    return manifest


def _sums(files: Iterable[EvidenceFile]) -> bytes:
    """As `sha256sum --check` reads it."""
    return "".join(f"{one.sha256}  {one.name}\n" for one in files).encode()


def printed_page(manifest: EvidenceManifest, t: Texts) -> str:
    """HTML that needs nothing but the pictures beside it."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    return template.render(manifest=manifest, t=t)

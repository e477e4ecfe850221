"""Copies with a checksum of small files whose format, Kafka's, has none.

Writes a copy beside such a file, and reads it back if the checksum agrees. The file itself is never
changed: Apache Kafka reads it and knows nothing of the copy.

One flipped bit in a topic id or an offset leaves a well-formed file with another meaning. Code that
deletes something because of such a file reads the copy first.
"""

from __future__ import annotations

from crc32c import crc32c

from broker.disk.port import Disk

SUFFIX = ".checked"
_LAST_LINE = "crc32c: "


def with_checksum(text: str) -> str:
    """The text with its checksum as last line. ``text`` ends with a line feed."""
    return f"{text}{_LAST_LINE}{crc32c(text.encode()):08x}\n"


def verify_checksum(text: str) -> str | None:
    """The text in front of the checksum; ``None`` if they disagree."""
    body, _, _ = text.rpartition(_LAST_LINE)
    return body if body and with_checksum(body) == text else None


def read_copy(disk: Disk, path: str) -> str | None:
    """What the copy of ``path`` says; ``None`` if there is none or it is damaged itself."""
    copy = path + SUFFIX
    return verify_checksum(disk.read_text(copy)) if disk.exists(copy) else None


def write_copy_durably(disk: Disk, path: str, text: str) -> None:
    """Replace the copy of ``path``."""
    disk.replace_text_durably(path + SUFFIX, with_checksum(text))


def write_copy(disk: Disk, path: str, text: str) -> None:
    """Replace the copy of ``path`` without waiting for the device.

    After a loss of power the copy may be the former one or damaged. For files whose reader detects
    that, and whose writer blocks a request: it saves two flushes.
    """
    temporary = path + SUFFIX + ".tmp"
    write_text(disk, temporary, with_checksum(text))
    disk.rename(temporary, path + SUFFIX)


def write_text(disk: Disk, path: str, text: str, *, is_new: bool = False) -> None:
    """Overwrite a small file without a flush. ``is_new``: it does not exist yet."""
    file = disk.open(path, create=True)
    try:
        if not is_new:
            file.truncate(0)
        file.append(text.encode())
    finally:
        file.close()

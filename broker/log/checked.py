"""Copies with a checksum of small files whose format, Kafka's, has none.

In: the text of such a file. Out: the copy beside it, and its text back if the checksum agrees.
Never: a change of the file itself; Apache Kafka reads that, and knows nothing of the copy.

One flipped bit in a topic id or an offset leaves a file that is well-formed and says something
else. Whoever acts on such a file by deleting asks the copy first.
"""

from __future__ import annotations

from crc32c import crc32c

from broker.disk.port import Disk

SUFFIX = ".checked"
_LAST_LINE = "crc32c: "


def sealed(text: str) -> str:
    """The text with its checksum as last line. ``text`` ends with a line feed."""
    return f"{text}{_LAST_LINE}{crc32c(text.encode()):08x}\n"


def unsealed(text: str) -> str | None:
    """The text in front of the checksum; ``None`` if they disagree."""
    body, _, _ = text.rpartition(_LAST_LINE)
    return body if body and sealed(body) == text else None


def read_copy(disk: Disk, path: str) -> str | None:
    """What the copy of ``path`` says; ``None`` if there is none or it is damaged itself."""
    copy = path + SUFFIX
    return unsealed(disk.read_text(copy)) if disk.exists(copy) else None


def write_copy_durably(disk: Disk, path: str, text: str) -> None:
    """Replace the copy of ``path``."""
    disk.replace_text_durably(path + SUFFIX, sealed(text))


def write_copy(disk: Disk, path: str, text: str) -> None:
    """Replace the copy of ``path`` without waiting for the device.

    After a loss of power the copy may be the former one or damaged. That is for files whose reader
    finds the right one by itself, and whose writer is waited for: two flushes fewer.
    """
    temporary = path + SUFFIX + ".tmp"
    write_text(disk, temporary, sealed(text))
    disk.rename(temporary, path + SUFFIX)


def write_text(disk: Disk, path: str, text: str, *, is_new: bool = False) -> None:
    """Write a small file over what it holds. Nothing is forced. ``is_new``: it is not there yet."""
    file = disk.open(path, create=True)
    try:
        if not is_new:
            file.truncate(0)
        file.append(text.encode())
    finally:
        file.close()

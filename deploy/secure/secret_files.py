"""Files that only their owner may read, from their first moment on.

In: paths, bytes. Out: on the device when a call returns. Raises OSError. Never: half a file under
its name, another mode.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from bus.files.durable_file import sync_folder

SECRET_MODE = 0o600
FOLDER_MODE = 0o700
NO_KEYS: Mapping[str, str] = MappingProxyType({})


def write_secret(path: Path, data: bytes) -> None:
    """A file that is not there yet. The folder's names are the caller's to make durable."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, SECRET_MODE)
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_secret(path: Path, data: bytes) -> None:
    """In one step, whether it is there or not; for one writer."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)  # of a process that was killed
    write_secret(fresh, data)
    fresh.replace(path)
    sync_folder(path.parent)


def make_private_folder(path: Path) -> None:
    """Below one that is there; nothing is said of one that is there already."""
    path.mkdir(mode=FOLDER_MODE, exist_ok=True)
    path.chmod(FOLDER_MODE)


def toml_of(
    title: str, tables: Mapping[str, Mapping[str, str]], head: Mapping[str, str] = NO_KEYS
) -> bytes:
    """Keys and tables below a line of comment. All values are ASCII, whose strings TOML writes as
    JSON does."""
    lines = [title]
    lines += [f"{json.dumps(key)} = {json.dumps(value)}" for key, value in head.items()]
    for name, table in tables.items():
        lines += ["", f"[{name}]"]
        lines += [f"{json.dumps(key)} = {json.dumps(value)}" for key, value in table.items()]
    return ("\n".join(lines) + "\n").encode()

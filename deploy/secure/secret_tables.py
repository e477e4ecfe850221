"""Reads files of a secured site that hold secrets.

In: paths. Out: tables. Raises OperatorError. Never: a file that others of this machine may read.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from bus.files.file_modes import OTHERS_MASK
from deploy.errors import OperatorError

Tables = dict[str, dict[str, Any]]
"""Sections of settings, by name."""


def read_tables(path: Path) -> Tables:
    """What a file of an account or of a node holds. Raises OperatorError where it is not there, is
    open to others or is none."""
    try:
        mode = path.stat().st_mode
        data = path.read_bytes()
    except FileNotFoundError:
        raise OperatorError(
            f"the site is secured (security.folder), and there is no {path}; make the folder"
            " with `./databus secure init`, or copy the file from where it was made"
        ) from None
    except OSError as error:
        raise OperatorError(
            f"{path} cannot be read: {error.strerror}; it belongs to the user that the product"
            " runs as"
        ) from error
    if mode & OTHERS_MASK:
        raise OperatorError(
            f"{path} holds a secret and is open to others of this machine; say `chmod 600 {path}`"
        )
    try:
        return tomllib.loads(data.decode())
    except ValueError as error:  # no TOML, or no UTF-8
        raise OperatorError(f"{path}: {error}") from error

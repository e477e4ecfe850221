"""The deployment register as a file that may change while we run."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Protocol

import msgspec

from bus.contracts.register import Register, decode_register

log = logging.getLogger(__name__)


class RegisterSource(Protocol):
    """Where a register comes from: a file, or the bus (`bus.client.register_follower`)."""

    @property
    def version(self) -> int:
        """Changes when the register does."""

    def read(self) -> Register:
        """The register now."""


class RegisterFile:
    """Checks the file with every question; empty until there is one. A file that cannot be read
    never replaces the last good register."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = (0, 0)  # time of the last change (ns), size
        self._register = Register()

    @property
    def version(self) -> int:
        """Changes when the register does; pages use it in the address they load it from."""
        self.read()
        return self._stamp[0]

    def read(self) -> Register:
        """The register now."""
        try:
            found = self._path.stat()
        except OSError:
            return self._register
        stamp = (found.st_mtime_ns, found.st_size)
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._register = decode_register(self._path.read_bytes())
            except (msgspec.DecodeError, msgspec.ValidationError, OSError) as error:
                log.warning("%s is not a register: %s", self._path, error)
        return self._register

"""The deployment register as a file that may change under us.

In: a path. Out: the newest readable register; an empty one before there is any. Never: a broken
file
replacing a good register.
"""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from bus.contracts.register import Register, decode_register

log = logging.getLogger(__name__)


class RegisterFile:
    """Looks at the file's time with every question; reading it takes milliseconds."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen_ns = 0
        self._register = Register()

    @property
    def version(self) -> int:
        """Changes when the register does; pages use it in the address they load it from."""
        self.read()
        return self._seen_ns

    def read(self) -> Register:
        """The register now."""
        try:
            changed_ns = self._path.stat().st_mtime_ns
        except OSError:
            return self._register
        if changed_ns != self._seen_ns:
            self._seen_ns = changed_ns
            try:
                self._register = decode_register(self._path.read_bytes())
            except (msgspec.DecodeError, msgspec.ValidationError, OSError) as error:
                log.warning("%s is not a register: %s", self._path, error)
        return self._register

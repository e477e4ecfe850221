"""Certificates for a test, made by openssl: an authority, and what it has signed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


class TlsFiles:
    """An authority in a folder."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("openssl") is None:
            pytest.skip("openssl is not installed")
        self.folder = folder
        self.authority = folder / "authority.pem"
        self._key = folder / "authority.key"
        self._run("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test",
                  "-keyout", str(self._key), "-out", str(self.authority))  # fmt: skip

    def signed(self, name: str, extension: str = "") -> tuple[Path, Path]:
        """The files of a certificate for `name` and of its key, which is PKCS#8."""
        key, request, certificate = (self.folder / f"{name}.{end}" for end in ("key", "csr", "pem"))
        self._run("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}",
                  "-keyout", str(key), "-out", str(request))  # fmt: skip
        extensions = self.folder / f"{name}.ext"
        extensions.write_text(extension, encoding="ascii")
        self._run("x509", "-req", "-in", str(request), "-CA", str(self.authority), "-CAkey",
                  str(self._key), "-CAcreateserial", "-days", "2", "-extfile", str(extensions),
                  "-out", str(certificate))  # fmt: skip
        return certificate, key

    def _run(self, *words: str) -> None:
        done = subprocess.run(["openssl", *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

"""A Kerberos realm of its own: MIT's KDC of Debian on a free port of 127.0.0.1, in a folder.

The libraries of this process and its children find it by the environment, KRB5_CONFIG.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bus.security.kerberos import INSTALL
from deploy.paths import PROJECT_ROOT
from deploy.servers.process import accepts, free_port
from deploy.setup.packages import install

REALM = "TEST.DATABUS"
SERVICE = "kafka"
HOST = "localhost"
READY_S = 60.0
BUILD_S = 600.0
LOCK = PROJECT_ROOT / "requirements-kerberos.lock"
_CONFIG = """[libdefaults]
  default_realm = {realm}
  dns_lookup_kdc = false
  dns_lookup_realm = false
  dns_canonicalize_hostname = false
  rdns = false
  udp_preference_limit = 1
  default_ccache_name = FILE:{folder}/tickets
[realms]
  {realm} = {{
    kdc = 127.0.0.1:{port}
  }}
[domain_realm]
  localhost = {realm}
"""
_KDC_CONFIG = """[kdcdefaults]
  kdc_listen = ""
  kdc_tcp_listen = 127.0.0.1:{port}
[realms]
  {realm} = {{
    database_name = {folder}/principal
    key_stash_file = {folder}/stash
    acl_file = {folder}/acl
    max_life = 10h
    default_principal_flags = +preauth
    supported_enctypes = aes256-cts-hmac-sha1-96:normal
  }}
[logging]
  kdc = FILE:{folder}/kdc.log
"""


class KerberosRealm:
    """One that runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_port()
        self.config = folder / "krb5.conf"
        values = {"realm": REALM, "folder": folder, "port": self.port}
        self.config.write_text(_CONFIG.format(**values), "utf-8")
        (folder / "kdc.conf").write_text(_KDC_CONFIG.format(**values), "utf-8")
        self.environment = {
            "KRB5_CONFIG": str(self.config), "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{folder}/tickets", "PATH": _path(),
            "JAVA_TOOL_OPTIONS": f"-Djava.security.krb5.conf={self.config}",
        }  # fmt: skip
        self._kdc: subprocess.Popen[bytes] | None = None

    def create(self) -> None:
        """Its empty database."""
        self.run("kdb5_util", "create", "-s", "-r", REALM, "-P", "of the database")

    def start(self) -> None:
        """Until it answers."""
        self._kdc = subprocess.Popen(
            ["krb5kdc", "-n"], env=os.environ | self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        end = time.monotonic() + READY_S
        while not accepts(self.port):
            assert self._kdc.poll() is None, "the KDC has ended"
            assert time.monotonic() < end, f"the KDC does not answer within {READY_S:.0f} s"
            time.sleep(0.05)

    def stop(self) -> None:
        if self._kdc is not None:
            self._kdc.send_signal(signal.SIGTERM)
            self._kdc.wait(READY_S)

    def add(self, principal: str, *, keytab: Path | None = None) -> None:
        """A principal of this realm with random keys, which are in its keytab."""
        self._admin("add_principal", "-randkey", principal)
        self.export(principal, keytab or self.keytab(principal))

    def keytab(self, principal: str) -> Path:
        """Where its keys lie; with or without the realm."""
        return self._folder / f"{principal.partition('@')[0].replace('/', '_')}.keytab"

    def export(self, principal: str, keytab: Path) -> None:
        """New keys of a principal; those of former keytabs fit no more."""
        self._admin("ktadd", "-k", str(keytab), principal)

    def _admin(self, *words: str) -> None:
        self.run("kadmin.local", "-r", REALM, "-q", " ".join(words))

    def run(self, *command: str) -> None:
        """One of Kerberos' programs."""
        done = subprocess.run(
            command, env=self.environment | os.environ, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=READY_S, check=False,
        )  # fmt: skip
        assert (done.returncode, "while" in done.stderr) == (0, False), done.stderr


def _path() -> str:
    return f"{os.environ['PATH']}:/usr/sbin:/sbin"


@contextmanager
def running_realm(folder: Path) -> Iterator[KerberosRealm]:
    """Skips, loudly, where Kerberos cannot be had."""
    if shutil.which("krb5kdc", path=_path()) is None:
        install(["krb5-kdc", "krb5-admin-server"], ["krb5-server"])
    if shutil.which("krb5kdc", path=_path()) is None or not shutil.which("kadmin.local", path=_path()):
        pytest.skip("Kerberos' KDC cannot be had (Debian: apt-get install krb5-kdc krb5-admin-server)")
    ensure_gssapi()
    realm = KerberosRealm(folder)
    before = {name: os.environ.get(name) for name in realm.environment}
    os.environ.update(realm.environment)
    try:
        realm.create()
        realm.start()
        yield realm
    finally:
        realm.stop()
        for name, text in before.items():
            os.environ.pop(name) if text is None else os.environ.update({name: text})


def ensure_gssapi() -> None:
    """The package that the product needs for Kerberos, and only for it, compiled once."""
    if importlib.util.find_spec("gssapi") is not None:
        return
    install(["gcc", "python3-dev", "libkrb5-dev"], ["gcc", "python3-devel", "krb5-devel"])
    subprocess.run(
        [f"{sys.prefix}/bin/uv", "pip", "install", "--no-deps", "-r", str(LOCK)],
        stdin=subprocess.DEVNULL, capture_output=True, timeout=BUILD_S, check=False,
        env=os.environ | {"VIRTUAL_ENV": sys.prefix},
    )  # fmt: skip
    importlib.invalidate_caches()
    if importlib.util.find_spec("gssapi") is None:
        pytest.skip(INSTALL)
